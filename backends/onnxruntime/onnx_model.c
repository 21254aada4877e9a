// Loading of a model's file; see onnx_model.h.
#include "onnx_model.h"

#include "backend_error.h"
#include "backend_file.h"
#include "backend_log.h"
#include "base/cleanup.h"
#include "base/files.h"
#include "onnx_data_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// What protobuf reads at most. Larger models have their weights in files beside them.
#define FILE_MAX_BYTES ((size_t)INT32_MAX)

// A model's file in memory and the directories in which its external data may lie.
typedef struct onnx_file {
  void *data;
  size_t size;
  char *path; // of the directory where the file's name is, from the model's directory on
  int dir;    // that directory
  int target; // where the file itself is, when its name is a link into another directory; or -1
} onnx_file;

// A directory of the model's name holds a model.onnx beside its external data.
static TRITONSERVER_Error *find_file(TRITONBACKEND_Model *model, const onnx_model *self,
                                     char **path)
{
  int dir = -1;
  char *inside = NULL;
  const char *name = backend_json_text(self->config, "default_model_filename");
  BACKEND_RETURN_IF_ERROR(backend_version_path(model, *name != '\0' ? name : "model.onnx", path));
  TRITONSERVER_Error *error = backend_open_dir(model, *path, &dir);
  if (error != NULL) {
    TRITONSERVER_ErrorDelete(error);
    return NULL;
  }
  close(dir);
  if (asprintf(&inside, "%s/model.onnx", *path) < 0)
    return backend_error_no_memory("a path");
  free(*path);
  *path = inside;
  return NULL;
}

// The directory of the file that is open; -1 when that is `named` or cannot be told.
static int open_target_dir(int file, int named)
{
  struct stat here, there;
  char *path AUTO_FREE = NULL;
  AUTO_ERROR error *e = files_path_of(file, &path);
  char *slash = e == NULL ? strrchr(path, '/') : NULL;
  if (slash == NULL)
    return -1;
  slash[1] = '\0';
  int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (dir < 0 || fstat(dir, &here) != 0 || fstat(named, &there) != 0 ||
      (here.st_ino == there.st_ino && here.st_dev == there.st_dev)) {
    if (dir >= 0)
      close(dir);
    return -1;
  }
  return dir;
}

// Reads <version>/<default_model_filename or model.onnx>.
static TRITONSERVER_Error *read_file(TRITONBACKEND_Model *model, const onnx_model *self,
                                     onnx_file *file)
{
  int descriptor = -1;
  BACKEND_RETURN_IF_ERROR(find_file(model, self, &file->path));
  BACKEND_RETURN_IF_ERROR(backend_open_file(model, file->path, &descriptor));
  TRITONSERVER_Error *error =
      backend_read_file(descriptor, file->path, FILE_MAX_BYTES, &file->data, &file->size);
  *strrchr(file->path, '/') = '\0'; // the version is before it
  if (error == NULL)
    error = backend_open_dir(model, file->path, &file->dir);
  if (error == NULL)
    file->target = open_target_dir(descriptor, file->dir);
  close(descriptor);
  return error;
}

// The bytes are ours only until the session is made, and external data lies in the file's
// directory, unless it is offered in memory.
static TRITONSERVER_Error *add_file_options(const onnx_model *self, const onnx_file *file,
                                            const onnx_data_files *data,
                                            ort_session_options *options)
{
  char dir[64];
  snprintf(dir, sizeof(dir), "/proc/self/fd/%d", file->dir);
  const struct {
    const char *key;
    const char *value;
  } entries[] = {
      {"session.use_ort_model_bytes_directly", "0"},
      {"session.use_ort_model_bytes_for_initializers", "0"},
      {"session.model_external_initializers_file_dir_path", dir},
  };
  for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
    ORT_RETURN_IF_ERROR(self->runtime, self->runtime->api.AddSessionConfigEntry(
                                           options, entries[i].key, entries[i].value));
  return data == NULL ? NULL : onnx_data_files_offer(data, self->runtime, options);
}

static TRITONSERVER_Error *make_session_of(onnx_model *self, const onnx_file *file,
                                           const onnx_data_files *data)
{
  const ort_api *api = &self->runtime->api;
  ort_session_options *options = NULL;
  BACKEND_RETURN_IF_ERROR(onnx_session_options(self, &options));
  TRITONSERVER_Error *error = add_file_options(self, file, data, options);
  if (error == NULL)
    error =
        ort_error(self->runtime, api->CreateSessionFromArray(self->runtime->env, file->data,
                                                             file->size, options, &self->session));
  api->ReleaseSessionOptions(options);
  return error;
}

static TRITONSERVER_Error *make_session_in_memory(TRITONBACKEND_Model *model, onnx_model *self,
                                                  const onnx_file *file)
{
  onnx_data_files data;
  TRITONSERVER_Error *error = onnx_data_files_init(&data, model, file->path, file->target);
  if (error == NULL && data.count <= 1) // the model itself
    error = backend_error(TRITONSERVER_ERROR_NOT_FOUND, "there is no external data");
  if (error == NULL)
    error = make_session_of(self, file, &data);
  onnx_data_files_fini(&data);
  return error;
}

// ONNX Runtime looks for external data in one directory, and newer versions follow no link out of
// it.
static TRITONSERVER_Error *try_session(TRITONBACKEND_Model *model, onnx_model *self,
                                       const onnx_file *file)
{
  TRITONSERVER_Error *error = make_session_of(self, file, NULL);
  if (error == NULL || self->runtime->add_data_files == NULL)
    return error;
  TRITONSERVER_Error *second = make_session_in_memory(model, self, file);
  if (second == NULL)
    BACKEND_LOG_INFO(
        "model '%s': its external data came from memory, as ONNX Runtime did not find it "
        "on the disk by itself",
        self->name);
  TRITONSERVER_ErrorDelete(second == NULL ? error : second);
  return second == NULL ? NULL : error;
}

static TRITONSERVER_Error *make_session(TRITONBACKEND_Model *model, onnx_model *self)
{
  onnx_file file = {.dir = -1, .target = -1};
  TRITONSERVER_Error *error = read_file(model, self, &file);
  if (error == NULL)
    error = try_session(model, self, &file);
  free(file.data);
  free(file.path);
  if (file.dir >= 0)
    close(file.dir);
  if (file.target >= 0)
    close(file.target);
  return error;
}

static TRITONSERVER_Error *complete(TRITONBACKEND_Model *model, onnx_backend *backend,
                                    onnx_model *self)
{
  bool wanted = false, changed = false;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelAutoCompleteConfig(model, &wanted));
  if (!wanted)
    return NULL;
  BACKEND_RETURN_IF_ERROR(
      onnx_autocomplete(self, onnx_backend_default_max_batch_size(backend), &changed));
  return changed ? backend_model_set_config(model, self->config) : NULL;
}

static TRITONSERVER_Error *load(TRITONBACKEND_Model *model, onnx_backend *backend, onnx_model *self)
{
  const char *name;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelName(model, &name));
  self->name = strdup(name);
  if (self->name == NULL)
    return backend_error_no_memory("the model");
  BACKEND_RETURN_IF_ERROR(backend_model_config(model, &self->config));
  self->max_batch_size = json_integer_value(json_object_get(self->config, "max_batch_size"));
  BACKEND_RETURN_IF_ERROR(onnx_backend_runtime(backend, self->config, &self->runtime));
  BACKEND_RETURN_IF_ERROR(make_session(model, self));
  BACKEND_RETURN_IF_ERROR(onnx_signature_read(self->runtime, self->session, &self->signature));
  BACKEND_RETURN_IF_ERROR(complete(model, backend, self));
  return onnx_validate(self);
}

TRITONSERVER_Error *onnx_model_new(TRITONBACKEND_Model *model, onnx_backend *backend,
                                   onnx_model **result)
{
  onnx_model *self = calloc(1, sizeof(*self));
  if (self == NULL)
    return backend_error_no_memory("the model");
  TRITONSERVER_Error *error = load(model, backend, self);
  if (error != NULL) {
    onnx_model_free(self);
    return error;
  }
  *result = self;
  return NULL;
}

void onnx_model_free(onnx_model *self)
{
  if (self == NULL)
    return;
  for (size_t i = 0; i < self->feed_count; i++)
    free(self->feeds[i].name);
  for (size_t i = 0; i < self->fetch_count; i++)
    free(self->fetches[i].name);
  free(self->feeds);
  free(self->fetches);
  onnx_signature_fini(&self->signature);
  if (self->session != NULL)
    self->runtime->api.ReleaseSession(self->session);
  json_decref(self->config);
  free(self->name);
  free(self);
}
