// Loading of a model's file; see onnx_model.h.
#include "onnx_model.h"

#include "backend_error.h"
#include "backend_file.h"
#include "backend_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// What protobuf reads at most. Larger models have their weights in files beside them.
#define FILE_MAX_BYTES ((size_t)INT32_MAX)

// A model's file in memory and the open folder it lies in.
typedef struct onnx_file {
  void *data;
  size_t size;
  int folder;
} onnx_file;

// Reads the file at `path` below the repository; a folder of that name holds a model.onnx beside
// its external data.
static TRITONSERVER_Error *read_below(int repository, char **path, onnx_file *file)
{
  if (backend_is_folder(repository, *path)) {
    char *inside = NULL;
    if (asprintf(&inside, "%s/model.onnx", *path) < 0)
      return backend_error_no_memory("a path");
    free(*path);
    *path = inside;
  }
  BACKEND_RETURN_IF_ERROR(
      backend_read_file(repository, *path, FILE_MAX_BYTES, &file->data, &file->size));
  char *slash = strrchr(*path, '/');
  *slash = '\0';
  return backend_open_folder(repository, *path, &file->folder);
}

// <version>/<default_model_filename or model.onnx>
static TRITONSERVER_Error *read_file(TRITONBACKEND_Model *model, const onnx_model *self,
                                     onnx_file *file)
{
  int repository = -1;
  char *path = NULL;
  const char *name = backend_json_text(self->config, "default_model_filename");
  BACKEND_RETURN_IF_ERROR(backend_version_path(model, *name != '\0' ? name : "model.onnx", &path));
  TRITONSERVER_Error *error = backend_open_repository(model, &repository);
  if (error == NULL) {
    error = read_below(repository, &path, file);
    close(repository);
  }
  free(path);
  return error;
}

// The bytes are ours only until the session is made, and external data lies beside the file.
static TRITONSERVER_Error *add_file_options(const onnx_model *self, const onnx_file *file,
                                            ort_session_options *options)
{
  char folder[64];
  snprintf(folder, sizeof folder, "/proc/self/fd/%d", file->folder);
  const struct {
    const char *key;
    const char *value;
  } entries[] = {
      {"session.use_ort_model_bytes_directly", "0"},
      {"session.use_ort_model_bytes_for_initializers", "0"},
      {"session.model_external_initializers_file_folder_path", folder},
  };
  for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++)
    ORT_RETURN_IF_ERROR(self->runtime, self->runtime->api.AddSessionConfigEntry(
                                           options, entries[i].key, entries[i].value));
  return NULL;
}

static TRITONSERVER_Error *make_session_of(onnx_model *self, const onnx_file *file)
{
  const ort_api *api = &self->runtime->api;
  ort_session_options *options = NULL;
  BACKEND_RETURN_IF_ERROR(onnx_session_options(self, &options));
  TRITONSERVER_Error *error = add_file_options(self, file, options);
  if (error == NULL)
    error =
        ort_error(self->runtime, api->CreateSessionFromArray(self->runtime->env, file->data,
                                                             file->size, options, &self->session));
  api->ReleaseSessionOptions(options);
  return error;
}

static TRITONSERVER_Error *make_session(TRITONBACKEND_Model *model, onnx_model *self)
{
  onnx_file file = {.folder = -1};
  TRITONSERVER_Error *error = read_file(model, self, &file);
  if (error == NULL)
    error = make_session_of(self, &file);
  free(file.data);
  if (file.folder >= 0)
    close(file.folder);
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
  onnx_model *self = calloc(1, sizeof *self);
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
