// Loading of a model's file; see onnx_model.h.
#include "onnx_model.h"

#include "backend_error.h"
#include "backend_log.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// <folder>/<version>/<default_model_filename or model.onnx>; a folder of that name holds a
// model.onnx beside its external data.
static TRITONSERVER_Error *find_file(TRITONBACKEND_Model *model, const onnx_model *self,
                                     char path[PATH_MAX])
{
  TRITONBACKEND_ArtifactType type;
  const char *folder;
  uint64_t version;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelRepository(model, &type, &folder));
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelVersion(model, &version));
  const char *file = backend_json_text(self->config, "default_model_filename");
  int size = snprintf(path, PATH_MAX, "%s/%llu/%s", folder, (unsigned long long)version,
                      *file != '\0' ? file : "model.onnx");
  struct stat status;
  if (size > 0 && size < PATH_MAX && stat(path, &status) == 0 && S_ISDIR(status.st_mode))
    size += snprintf(path + size, (size_t)(PATH_MAX - size), "/model.onnx");
  if (size < 0 || size >= PATH_MAX)
    return backend_error(TRITONSERVER_ERROR_INVALID_ARG, "the path of model '%s' is too long",
                         self->name);
  if (stat(path, &status) != 0 || !S_ISREG(status.st_mode))
    return backend_error(TRITONSERVER_ERROR_UNAVAILABLE,
                         "unable to find '%s' for model instance '%s'", path, self->name);
  return NULL;
}

static TRITONSERVER_Error *make_session(TRITONBACKEND_Model *model, onnx_model *self)
{
  char path[PATH_MAX];
  ort_session_options *options = NULL;
  BACKEND_RETURN_IF_ERROR(find_file(model, self, path));
  BACKEND_RETURN_IF_ERROR(onnx_session_options(self, &options));
  TRITONSERVER_Error *error =
      ort_error(self->runtime, self->runtime->api.CreateSession(self->runtime->env, path, options,
                                                                &self->session));
  self->runtime->api.ReleaseSessionOptions(options);
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
