// SPDX-License-Identifier: Apache-2.0
// Opens TensorFlow with dlopen.
#include "tf_runtime.h"

#include "backend_error.h"
#include "base/cleanup.h"
#include "base/text.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_MAJOR   2
#define LEAST_MINOR   16
#define LEAST_VERSION "2.16"

static TRITONSERVER_Error *read_functions(void *library, const char *path, tf_api *api)
{
  const framework_function functions[] = {
#define TF_API_ROW(function, result, arguments) {.name = "TF_" #function, .member = &api->function},
      TF_API_FUNCTIONS(TF_API_ROW)
#undef TF_API_ROW
  };
  return framework_find_functions(library, path, "TensorFlow " LEAST_VERSION " or newer", functions,
                                  sizeof(functions) / sizeof(functions[0]));
}

static bool is_new_enough(const char *version)
{
  const char *rest = version;
  int64_t major = 0, minor = 0;
  return text_begins_int64(version, &major, &rest) && *rest == '.' &&
         text_begins_int64(rest + 1, &minor, &rest) &&
         (major > LEAST_MAJOR || (major == LEAST_MAJOR && minor >= LEAST_MINOR));
}

static TRITONSERVER_Error *check_version(const char *path, const char *version)
{
  if (is_new_enough(version))
    return NULL;
  return backend_error(TRITONSERVER_ERROR_UNSUPPORTED,
                       "'%s' is TensorFlow %s, " LEAST_VERSION " or newer is needed", path,
                       version);
}

TRITONSERVER_Error *tf_runtime_open(framework_library *library)
{
  tf_runtime *runtime = calloc(1, sizeof(*runtime));
  library->state = runtime;
  if (runtime == NULL)
    return backend_error_no_memory("TensorFlow");
  void *handle = NULL;
  BACKEND_RETURN_IF_ERROR(framework_open_file(library->path, &handle));
  TRITONSERVER_Error *error = read_functions(handle, library->path, &runtime->api);
  dlclose(handle);
  if (error != NULL)
    return error;
  library->version = runtime->api.Version();
  return check_version(library->path, library->version);
}

void tf_runtime_close(framework_library *library)
{
  free(library->state);
}

TRITONSERVER_Error *tf_error(const tf_api *api, const tf_api_status *status, const char *path)
{
  if (status == NULL)
    return backend_error_no_memory("TensorFlow");
  if (api->GetCode(status) == TF_API_OK)
    return NULL;
  char *line AUTO_FREE = backend_one_line(api->Message(status));
  if (line == NULL)
    return backend_error_no_memory("an error of TensorFlow");
  return path == NULL ? backend_error_internal("%s", line)
                      : backend_error_internal("unable to load '%s': %s", path, line);
}
