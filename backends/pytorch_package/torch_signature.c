// SPDX-License-Identifier: Apache-2.0
// Makes the signature of a model that says little about its tensors, from the configuration.
#include "torch_signature.h"

#include "backend_error.h"
#include "backend_log.h"
#include "torch_types.h"

#include <stdlib.h>
#include <string.h>

// One list of the configuration.
typedef struct listing {
  framework_model *model;
  const char *kind; // "input", "output"
  const torch_known *known;
  torch_convention convention;
  framework_tensors *tensors;
} listing;

static const json_t *sequence_list(const framework_model *model, const char *key)
{
  return json_object_get(json_object_get(model->config, "sequence_batching"), key);
}

// ---- checks of one tensor ----

static TRITONSERVER_Error *check_type(const framework_model *model, const char *what,
                                      const char *name, const char *type)
{
  const TRITONSERVER_DataType datatype = backend_datatype_of(type);
  if (datatype == TRITONSERVER_TYPE_BYTES || torch_type_of(datatype) >= 0)
    return NULL;
  return backend_error_internal("unsupported datatype %s for %s '%s' for model '%s'", type, what,
                                name, model->name);
}

static TRITONSERVER_Error *check_strings(const framework_model *model, const char *kind,
                                         const backend_tensor_config *tensor)
{
  if (tensor->datatype != TRITONSERVER_TYPE_BYTES ||
      tensor->model_dims.rank + (model->max_batch_size > 0) <= 1)
    return NULL;
  return backend_error_internal(
      "Triton only supports 1 dimensional List of String as %s for '%s' for model '%s'", kind,
      tensor->name, model->name);
}

// ---- the list ----

static TRITONSERVER_Error *outside(const listing *self, const char *name)
{
  if (self->convention == TORCH_BY_NAME)
    return backend_error_invalid("model '%s': %s '%s' is not the model's", self->model->name,
                                 self->kind, name);
  return backend_error_invalid(
      "unable to load model '%s', %s '%s' refers to an index which doesn't exist: the model has "
      "%zu %ss",
      self->model->name, self->kind, name, self->known->count, self->kind);
}

// Adds `name` as the next tensor. A state's output may be an output, too.
static TRITONSERVER_Error *add(listing *self, torch_convention convention, const char *name,
                               size_t order)
{
  framework_tensors *tensors = self->tensors;
  size_t position = 0;
  if (framework_tensor_find(tensors, name) != NULL)
    return NULL;
  if (!torch_position_of(convention, name, self->known, order, &position))
    return outside(self, name);
  for (size_t i = 0; i < tensors->count && strcmp(self->kind, "input") == 0; i++)
    if (tensors->list[i].position == position)
      return backend_error_invalid("model '%s': inputs '%s' and '%s' are both the model's %zu.",
                                   self->model->name, tensors->list[i].name, name, position);
  framework_tensor *grown = reallocarray(tensors->list, tensors->count + 1, sizeof(*grown));
  char *copy = strdup(name);
  if (grown != NULL)
    tensors->list = grown;
  if (grown == NULL || copy == NULL) {
    free(copy);
    return backend_error_no_memory("the model's tensors");
  }
  grown[tensors->count++] = (framework_tensor){.name = copy,
                                               .any_type = true,
                                               .any_rank = true,
                                               .shape = {.rank = 1, .dims = {-1}},
                                               .position = position};
  return NULL;
}

// Warns as Triton does: about outputs only when they seem to have an index.
static void warn_of_order(const listing *self, const char *culprit)
{
  if (culprit == NULL)
    return;
  if (strcmp(self->kind, "input") == 0)
    BACKEND_LOG_WARN(
        "input '%s' or previous input(s) are neither an input argument to the model '%s' nor do "
        "they follow the <name>__<index> naming convention. Falling back to enforcing strict "
        "ordering from model configuration.",
        culprit, self->model->name);
  else if (strstr(culprit, "__") != NULL)
    BACKEND_LOG_WARN("output '%s' or previous output(s) of the model '%s' do not follow the "
                     "<name>__<index> naming convention. Falling back to enforcing strict "
                     "ordering from model configuration.",
                     culprit, self->model->name);
}

static TRITONSERVER_Error *find_convention(listing *self, const backend_tensor_config *list,
                                           size_t count)
{
  const char *culprit = NULL;
  json_t *names = json_array();
  for (size_t i = 0; i < count; i++)
    json_array_append_new(names, json_string(list[i].name));
  const bool made = names != NULL && json_array_size(names) == count;
  if (made) {
    self->convention = torch_convention_of(names, self->known, &culprit);
    if (self->convention == TORCH_BY_ORDER)
      warn_of_order(self, culprit);
  }
  json_decref(names);
  return made ? NULL : backend_error_no_memory("the model's tensors");
}

static TRITONSERVER_Error *add_list(listing *self, const backend_tensor_config *list, size_t count)
{
  if (count == 0)
    return backend_error_internal(
        "model configuration must contain at least one %s, none were specified.", self->kind);
  BACKEND_RETURN_IF_ERROR(find_convention(self, list, count));
  for (size_t i = 0; i < count; i++) {
    BACKEND_RETURN_IF_ERROR(check_type(self->model, self->kind, list[i].name, list[i].type_text));
    BACKEND_RETURN_IF_ERROR(check_strings(self->model, self->kind, &list[i]));
    BACKEND_RETURN_IF_ERROR(add(self, self->convention, list[i].name, self->tensors->count));
  }
  return NULL;
}

static TRITONSERVER_Error *add_configured(listing *self)
{
  backend_tensor_config *list = NULL;
  size_t count = 0;
  BACKEND_RETURN_IF_ERROR(backend_tensor_configs(self->model->config, self->kind, &list, &count));
  TRITONSERVER_Error *error = add_list(self, list, count);
  free(list);
  return error;
}

// ---- what sequences and batches add ----

static TRITONSERVER_Error *add_controls(listing *self)
{
  const json_t *controls = sequence_list(self->model, "control_input");
  size_t index;
  for (size_t i = 0; i < json_array_size(controls); i++) {
    const json_t *control = json_array_get(controls, i);
    const char *name = backend_json_text(control, "name");
    if (json_array_size(json_object_get(control, "control")) == 0)
      continue;
    if (!self->known->any && !torch_index_of(name, &index))
      return backend_error_internal("input '%s' does not follow <name>__<index> naming convention.",
                                    name);
    BACKEND_RETURN_IF_ERROR(add(self, TORCH_BY_INDEX, name, self->tensors->count));
  }
  return NULL;
}

static TRITONSERVER_Error *add_states(listing *self, const char *key)
{
  const json_t *states = sequence_list(self->model, "state");
  size_t index;
  if (json_array_size(states) > 0 && self->convention != TORCH_BY_INDEX && !self->known->any &&
      !self->known->mixed)
    return backend_error_invalid(
        "PyTorch model '%s' is using sequence batching with state but not all inputs and outputs "
        "follow the <name>__<index> naming convention. ",
        self->model->name);
  for (size_t i = 0; i < json_array_size(states); i++) {
    const char *name = backend_json_text(json_array_get(states, i), key);
    if (!self->known->any && !torch_index_of(name, &index))
      return backend_error_invalid(
          "PyTorch model '%s' is using sequence batching with state but state '%s' does not follow "
          "the <name>__<index> naming convention. ",
          self->model->name, name);
    BACKEND_RETURN_IF_ERROR(check_type(self->model, "state", name,
                                       backend_json_text(json_array_get(states, i), "data_type")));
    BACKEND_RETURN_IF_ERROR(add(self, TORCH_BY_INDEX, name, self->tensors->count));
  }
  return NULL;
}

static TRITONSERVER_Error *add_batch_inputs(listing *self)
{
  const json_t *inputs = json_object_get(self->model->config, "batch_input");
  for (size_t i = 0; i < json_array_size(inputs); i++) {
    const json_t *targets = json_object_get(json_array_get(inputs, i), "target_name");
    for (size_t k = 0; k < json_array_size(targets); k++)
      BACKEND_RETURN_IF_ERROR(add(self, self->convention,
                                  json_string_value(json_array_get(targets, k)),
                                  self->tensors->count));
  }
  return NULL;
}

static TRITONSERVER_Error *check_count(const framework_model *model, const torch_known *inputs)
{
  const json_t *batch_inputs = json_object_get(model->config, "batch_input");
  size_t expected = json_array_size(json_object_get(model->config, "input")) +
                    json_array_size(sequence_list(model, "control_input")) +
                    json_array_size(sequence_list(model, "state"));
  for (size_t i = 0; i < json_array_size(batch_inputs); i++)
    expected += json_array_size(json_object_get(json_array_get(batch_inputs, i), "target_name"));
  if (!inputs->counted || expected == 0 || expected == inputs->count)
    return NULL;
  return backend_error_invalid(
      "unable to load model '%s', configuration expects %zu inputs, model provides %zu",
      model->name, expected, inputs->count);
}

TRITONSERVER_Error *torch_signature_make(framework_model *model, const torch_known *inputs,
                                         const torch_known *outputs)
{
  listing in = {model, "input", inputs, TORCH_BY_ORDER, &model->signature.inputs};
  listing out = {model, "output", outputs, TORCH_BY_ORDER, &model->signature.outputs};
  BACKEND_RETURN_IF_ERROR(check_count(model, inputs));
  BACKEND_RETURN_IF_ERROR(add_configured(&in));
  BACKEND_RETURN_IF_ERROR(add_controls(&in));
  BACKEND_RETURN_IF_ERROR(add_states(&in, "input_name"));
  BACKEND_RETURN_IF_ERROR(add_batch_inputs(&in));
  BACKEND_RETURN_IF_ERROR(add_configured(&out));
  return add_states(&out, "output_name");
}
