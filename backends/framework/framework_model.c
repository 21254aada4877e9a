// SPDX-License-Identifier: Apache-2.0
// Loads a version of a model. Load threads.
#include "framework_parts.h"

#include "backend_error.h"

#include <stdlib.h>
#include <string.h>

static TRITONSERVER_Error *complete(framework_model *self)
{
  bool wanted = false, changed = false;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelAutoCompleteConfig(self->model, &wanted));
  if (!wanted || framework_definition.complete == NULL)
    return NULL;
  BACKEND_RETURN_IF_ERROR(framework_definition.complete(self, &changed));
  return changed ? backend_model_set_config(self->model, self->config) : NULL;
}

static TRITONSERVER_Error *load(framework_model *self, framework_backend *backend)
{
  const char *name;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelName(self->model, &name));
  self->name = strdup(name);
  if (self->name == NULL)
    return backend_error_no_memory("the model");
  BACKEND_RETURN_IF_ERROR(backend_model_config(self->model, &self->config));
  self->max_batch_size = json_integer_value(json_object_get(self->config, "max_batch_size"));
  BACKEND_RETURN_IF_ERROR(framework_backend_library(backend, self->config, &self->library));
  BACKEND_RETURN_IF_ERROR(framework_definition.load(self));
  BACKEND_RETURN_IF_ERROR(complete(self));
  if (framework_definition.fit != NULL)
    BACKEND_RETURN_IF_ERROR(framework_definition.fit(self));
  BACKEND_RETURN_IF_ERROR(framework_validate(self));
  return framework_definition.prepare == NULL ? NULL : framework_definition.prepare(self);
}

TRITONSERVER_Error *framework_model_new(TRITONBACKEND_Model *model, framework_backend *backend,
                                        framework_model **result)
{
  framework_model *self = calloc(1, sizeof(*self));
  if (self == NULL)
    return backend_error_no_memory("the model");
  self->model = model;
  self->default_max_batch_size = framework_backend_default_max_batch_size(backend);
  TRITONSERVER_Error *error = load(self, backend);
  if (error != NULL) {
    framework_model_free(self);
    return error;
  }
  *result = self;
  return NULL;
}

void framework_model_free(framework_model *self)
{
  if (self == NULL)
    return;
  if (self->library != NULL)
    framework_definition.unload(self);
  free(self->feeds);
  free(self->batch_feeds);
  free(self->batch_outputs);
  free(self->fetches);
  framework_tensors_clear(&self->signature.inputs);
  framework_tensors_clear(&self->signature.outputs);
  framework_tensors_clear(&self->signature.overridable);
  json_decref(self->config);
  free(self->name);
  free(self);
}
