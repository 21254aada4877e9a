// SPDX-License-Identifier: Apache-2.0
// Completes a model's configuration from its signature. Load threads.
#include "framework.h"

#include "backend_error.h"
#include "backend_log.h"

#include <string.h>

// A model can batch when the first dimension of each input and output is open.
bool framework_first_dimension_open(const framework_tensors *tensors)
{
  for (size_t i = 0; i < tensors->count; i++) {
    const framework_tensor *tensor = &tensors->list[i];
    if (tensor->refusal != NULL || tensor->shape.rank == 0 || tensor->shape.dims[0] != -1)
      return false;
  }
  return true;
}

static bool set(json_t *object, const char *key, json_t *value)
{
  return json_object_set_new(object, key, value) == 0;
}

TRITONSERVER_Error *framework_complete_batching(framework_model *model, bool *changed)
{
  json_t *config = model->config;
  bool stored = true;
  if (model->max_batch_size == 0) {
    model->max_batch_size = model->default_max_batch_size;
    stored = set(config, "max_batch_size", json_integer(model->max_batch_size));
    *changed = true;
    BACKEND_LOG_INFO("model '%s' can batch and names no max_batch_size: set to %lld "
                     "(--backend-config=%s,default-max-batch-size)",
                     model->name, (long long)model->max_batch_size,
                     framework_definition.framework.backend);
  }
  if (model->max_batch_size > 1 && json_object_get(config, "dynamic_batching") == NULL &&
      json_object_get(config, "sequence_batching") == NULL) {
    stored = stored && set(config, "dynamic_batching", json_object());
    *changed = true;
  }
  return stored ? NULL : backend_error_no_memory("the completed configuration");
}

// Adds the shape without the batch dimension. A tensor that is a scalar per request is [1] for
// clients.
static bool add_shape(json_t *entry, const backend_shape *shape, bool batches)
{
  json_t *dims = json_array();
  bool stored = dims != NULL;
  for (size_t i = batches ? 1 : 0; i < shape->rank; i++)
    stored = stored && json_array_append_new(dims, json_integer(shape->dims[i])) == 0;
  if (json_array_size(dims) == 0) {
    stored = stored && json_array_append_new(dims, json_integer(1)) == 0;
    if (batches)
      stored = stored && set(entry, "reshape", json_pack("{s:[]}", "shape"));
  }
  return set(entry, "dims", dims) && stored; // set takes `dims` whatever came before
}

static bool lists_name(const json_t *list, const char *key, const char *name)
{
  for (size_t i = 0; i < json_array_size(list); i++)
    if (strcmp(backend_json_text(json_array_get(list, i), key), name) == 0)
      return true;
  return false;
}

// Inputs that the server makes; requests do not bring them.
static bool is_made(const framework_model *model, const char *name)
{
  const json_t *sequence = json_object_get(model->config, "sequence_batching");
  const json_t *batch_inputs = json_object_get(model->config, "batch_input");
  for (size_t i = 0; i < json_array_size(batch_inputs); i++) {
    const json_t *targets = json_object_get(json_array_get(batch_inputs, i), "target_name");
    for (size_t k = 0; k < json_array_size(targets); k++)
      if (strcmp(json_string_value(json_array_get(targets, k)), name) == 0)
        return true;
  }
  return lists_name(json_object_get(sequence, "control_input"), "name", name) ||
         lists_name(json_object_get(sequence, "state"), "input_name", name);
}

// Completes one entry.
static TRITONSERVER_Error *complete_entry(const framework_model *model,
                                          const framework_tensor *tensor, json_t *entry,
                                          bool *changed)
{
  const char *type = backend_json_text(entry, "data_type");
  const bool has_type = *type != '\0' && strcmp(type, "TYPE_INVALID") != 0;
  const bool has_dims = json_array_size(json_object_get(entry, "dims")) > 0;
  if (has_type && has_dims)
    return NULL;
  if (tensor->refusal != NULL)
    return backend_error(TRITONSERVER_ERROR_UNSUPPORTED, "%s", tensor->refusal);
  if (!has_dims && tensor->any_rank && tensor->shape.rank > 0)
    return backend_error_invalid("Unable to autofill for '%s': the rank of model tensor '%s' is 0 "
                                 "and dimensions are not defined",
                                 model->name, tensor->name);
  *changed = true;
  const bool stored =
      (has_type || set(entry, "data_type", json_string(framework_config_type(tensor->datatype)))) &&
      (has_dims || add_shape(entry, &tensor->shape, model->max_batch_size > 0));
  return stored ? NULL : backend_error_no_memory("the completed configuration");
}

static TRITONSERVER_Error *add_entries(const framework_model *model, json_t *entries,
                                       const framework_tensors *tensors, bool *changed)
{
  for (size_t i = 0; i < tensors->count; i++) {
    const framework_tensor *tensor = &tensors->list[i];
    if (lists_name(entries, "name", tensor->name) || is_made(model, tensor->name))
      continue;
    json_t *entry = json_object();
    if (json_array_append_new(entries, entry) != 0 ||
        !set(entry, "name", json_string(tensor->name)))
      return backend_error_no_memory("the completed configuration");
    BACKEND_RETURN_IF_ERROR(complete_entry(model, tensor, entry, changed));
  }
  return NULL;
}

TRITONSERVER_Error *framework_complete_list(framework_model *model, const char *key,
                                            const framework_tensors *tensors, bool add,
                                            bool *changed)
{
  json_t *entries = json_object_get(model->config, key);
  if (entries == NULL) {
    entries = json_array();
    if (!set(model->config, key, entries))
      return backend_error_no_memory("the completed configuration");
  }
  for (size_t i = 0; i < json_array_size(entries); i++) {
    json_t *entry = json_array_get(entries, i);
    const framework_tensor *tensor =
        framework_tensor_find(tensors, backend_json_text(entry, "name"));
    if (tensor != NULL)
      BACKEND_RETURN_IF_ERROR(complete_entry(model, tensor, entry, changed));
  }
  return add ? add_entries(model, entries, tensors, changed) : NULL;
}

TRITONSERVER_Error *framework_complete_tensors(framework_model *model, const char *key,
                                               const framework_tensors *tensors, bool *changed)
{
  return framework_complete_list(model, key, tensors, true, changed);
}
