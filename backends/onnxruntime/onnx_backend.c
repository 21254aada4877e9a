// Settings and libraries; see onnx_backend.h.
#include "onnx_backend.h"

#include "backend_config.h"
#include "backend_error.h"
#include "backend_log.h"
#include "base/cleanup.h"
#include "base/machine.h"
#include "framework_search.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_MAX_BATCH_SIZE 4
#define MAX_THREADS            4096

struct onnx_backend {
  int64_t default_max_batch_size;
  ort_runtime_settings settings;
  pthread_mutex_t lock;   // guards `runtimes`
  ort_runtime *runtimes;  // one for each path
  ort_runtime *preferred; // NULL when none was found
  char *looked;           // where, for the error of a model that needs it
};

// NULL where it is not given.
static const char *text_of(const json_t *settings, const char *key)
{
  return json_string_value(json_object_get(settings, key));
}

static TRITONSERVER_Error *read_settings(onnx_backend *self, const json_t *settings)
{
  static const char where[] = "--backend-config=onnxruntime";
  bool spin = false;
  int cores = (int)machine_cpus();
  self->default_max_batch_size = DEFAULT_MAX_BATCH_SIZE;
  self->settings.intra_op_threads = 0;
  self->settings.inter_op_threads = 0;
  const struct {
    const char *key;
    int64_t most;
    int64_t *value;
  } numbers[] = {
      {"default-max-batch-size", INT32_MAX, &self->default_max_batch_size},
      {"intra_op_thread_count", MAX_THREADS, &self->settings.intra_op_threads},
      {"inter_op_thread_count", MAX_THREADS, &self->settings.inter_op_threads},
  };
  for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
    BACKEND_RETURN_IF_ERROR(backend_read_integer(where, numbers[i].key,
                                                 text_of(settings, numbers[i].key), 0,
                                                 numbers[i].most, numbers[i].value));
  BACKEND_RETURN_IF_ERROR(backend_read_bool(where, "enable-global-threadpool",
                                            text_of(settings, "enable-global-threadpool"),
                                            &self->settings.global_threads));
  BACKEND_RETURN_IF_ERROR(
      backend_read_bool(where, "allow_spinning", text_of(settings, "allow_spinning"), &spin));
  self->settings.spin = spin;
  if (self->settings.intra_op_threads == 0)
    self->settings.intra_op_threads = cores;
  if (self->settings.inter_op_threads == 0)
    self->settings.inter_op_threads = cores;
  return NULL;
}

// The library at `path`, opened at most once.
static TRITONSERVER_Error *open_path(onnx_backend *self, const char *path, ort_runtime **runtime)
{
  LOCK_SCOPE(&self->lock);
  *runtime = self->runtimes;
  while (*runtime != NULL && strcmp((*runtime)->path, path) != 0)
    *runtime = (*runtime)->next;
  if (*runtime != NULL)
    return NULL;
  BACKEND_RETURN_IF_ERROR(ort_runtime_open(path, &self->settings, runtime));
  (*runtime)->next = self->runtimes;
  self->runtimes = *runtime;
  return NULL;
}

static const framework onnx_runtime = {
    .name = "ONNX Runtime",
    .backend = "onnxruntime",
    .package = "onnxruntime",
    .dir = "onnxruntime/capi",
    .library = "libonnxruntime.so",
    .loader_names = {"libonnxruntime.so.1", "libonnxruntime.so"},
};

static bool open_preferred(void *context, const char *path, char **why_not)
{
  onnx_backend *self = context;
  TRITONSERVER_Error *error = open_path(self, path, &self->preferred);
  if (error == NULL)
    return true;
  *why_not = strdup(TRITONSERVER_ErrorMessage(error));
  TRITONSERVER_ErrorDelete(error);
  return false;
}

static void find_preferred(onnx_backend *self, const char *own_dir, const json_t *settings)
{
  const char *search = text_of(settings, "framework-search");
  framework_system system;
  framework_system_init(&system);
  system.strict = search != NULL && strcmp(search, "strict") == 0;
  const framework_search wanted = {
      .framework = &onnx_runtime,
      .system = &system,
      .library = text_of(settings, "library"),
      .python_environment = text_of(settings, "python-environment"),
      .python_executable = text_of(settings, "python-executable"),
      .own_dir = own_dir,
      .open = open_preferred,
      .context = self,
  };
  framework_find(&wanted, &self->looked);
  if (self->looked != NULL && self->looked[0] != '\0')
    BACKEND_LOG_VERBOSE("onnxruntime: looked in %s", self->looked);
}

TRITONSERVER_Error *onnx_backend_new(TRITONBACKEND_Backend *backend, onnx_backend **result)
{
  TRITONBACKEND_ArtifactType artifact_type;
  const char *own_dir;
  json_t *settings;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_BackendArtifacts(backend, &artifact_type, &own_dir));
  BACKEND_RETURN_IF_ERROR(backend_settings(backend, &settings));
  onnx_backend *made = calloc(1, sizeof(*made));
  TRITONSERVER_Error *error = NULL;
  if (made == NULL) {
    error = backend_error_no_memory("the backend");
  } else {
    pthread_mutex_init(&made->lock, NULL);
    error = read_settings(made, settings);
  }
  if (error == NULL)
    find_preferred(made, own_dir, settings);
  json_decref(settings);
  if (error != NULL) {
    onnx_backend_free(made);
    return error;
  }
  *result = made;
  return NULL;
}

void onnx_backend_free(onnx_backend *self)
{
  if (self == NULL)
    return;
  while (self->runtimes != NULL) {
    ort_runtime *first = self->runtimes;
    self->runtimes = first->next;
    ort_runtime_close(first);
  }
  pthread_mutex_destroy(&self->lock);
  free(self->looked);
  free(self);
}

TRITONSERVER_Error *onnx_backend_runtime(onnx_backend *self, const json_t *model_config,
                                         ort_runtime **runtime)
{
  const char *named = backend_parameter(model_config, "onnxruntime_library");
  if (named != NULL)
    return open_path(self, named, runtime);
  *runtime = self->preferred;
  if (*runtime != NULL)
    return NULL;
  char *text = framework_not_found(&onnx_runtime, self->looked);
  TRITONSERVER_Error *error = text == NULL ? backend_error_no_memory("ONNX Runtime")
                                           : backend_error_unavailable("%s", text);
  free(text);
  return error;
}

int64_t onnx_backend_default_max_batch_size(const onnx_backend *self)
{
  return self->default_max_batch_size;
}
