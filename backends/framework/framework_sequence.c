// SPDX-License-Identifier: Apache-2.0
// The tensors that sequence batching adds to a model: controls and states.
#include "framework_parts.h"

#include "backend_error.h"

#include <stdlib.h>
#include <string.h>

static const json_t *batching_list(const json_t *config, const char *key)
{
  return json_object_get(json_object_get(config, "sequence_batching"), key);
}

// ---- controls ----

// A boolean control has the type of its values, the correlation id its own.
static const char *control_type(const json_t *control)
{
  static const struct {
    const char *values, *type;
  } types[] = {{"int32_false_true", "TYPE_INT32"},
               {"fp32_false_true", "TYPE_FP32"},
               {"bool_false_true", "TYPE_BOOL"}};
  for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
    if (json_array_size(json_object_get(control, types[i].values)) > 0)
      return types[i].type;
  return backend_json_text(control, "data_type");
}

static TRITONSERVER_Error *check_control(const framework_model *model, const char *name,
                                         const char *type)
{
  const framework_tensor *tensor = framework_tensor_find(&model->signature.inputs, name);
  char text[BACKEND_SHAPE_TEXT];
  backend_shape shape = {0};
  if (tensor == NULL)
    return backend_error_internal(
        "configuration specified sequence control '%s', but model does not provide that input",
        name);
  for (size_t i = model->max_batch_size > 0; i < tensor->shape.rank; i++)
    shape.dims[shape.rank++] = tensor->shape.dims[i];
  if (!tensor->any_type && (shape.rank != 1 || shape.dims[0] != 1))
    return backend_error_invalid("unable to load model '%s', sequence control '%s' in model has "
                                 "dims %s but dims [1] is expected",
                                 model->name, name, backend_shape_text(&shape, text));
  if (!tensor->any_type && strcmp(framework_config_type(tensor->datatype), type) != 0)
    return backend_error_invalid(
        "unable to load model '%s', sequence control '%s', the model expects data-type %s but the "
        "model configuration specifies data-type %s",
        model->name, name, framework_config_type(tensor->datatype), type);
  return NULL;
}

static TRITONSERVER_Error *add_control(const framework_model *model, const json_t *input,
                                       backend_tensor_config *added)
{
  const char *name = backend_json_text(input, "name");
  const char *type = control_type(json_array_get(json_object_get(input, "control"), 0));
  BACKEND_RETURN_IF_ERROR(check_control(model, name, type));
  *added = (backend_tensor_config){.name = name,
                                   .type_text = type,
                                   .datatype = backend_datatype_of(type),
                                   .dims = {.rank = 1, .dims = {1}},
                                   .model_dims = {.rank = 1, .dims = {1}}};
  return NULL;
}

// ---- states ----

static TRITONSERVER_Error *state_of(const json_t *state, const char *key,
                                    backend_tensor_config *added)
{
  *added = (backend_tensor_config){.name = backend_json_text(state, key),
                                   .type_text = backend_json_text(state, "data_type")};
  added->datatype = backend_datatype_of(added->type_text);
  BACKEND_RETURN_IF_ERROR(
      backend_shape_from_json(&added->dims, json_object_get(state, "dims"), added->name));
  added->model_dims = added->dims;
  return NULL;
}

TRITONSERVER_Error *framework_sequence_inputs(const framework_model *model,
                                              backend_tensor_config **tensors, size_t *count)
{
  const json_t *controls = batching_list(model->config, "control_input");
  const json_t *states = batching_list(model->config, "state");
  *count = 0;
  *tensors = calloc(json_array_size(controls) + json_array_size(states) + 1, sizeof(**tensors));
  if (*tensors == NULL)
    return backend_error_no_memory("the model's tensors");
  for (size_t i = 0; i < json_array_size(controls); i++)
    if (json_array_size(json_object_get(json_array_get(controls, i), "control")) > 0)
      BACKEND_RETURN_IF_ERROR(
          add_control(model, json_array_get(controls, i), &(*tensors)[(*count)++]));
  for (size_t i = 0; i < json_array_size(states); i++)
    BACKEND_RETURN_IF_ERROR(
        state_of(json_array_get(states, i), "input_name", &(*tensors)[(*count)++]));
  return NULL;
}

TRITONSERVER_Error *framework_sequence_outputs(const framework_model *model,
                                               backend_tensor_config **tensors, size_t *count)
{
  const json_t *states = batching_list(model->config, "state");
  *count = 0;
  *tensors = calloc(json_array_size(states) + 1, sizeof(**tensors));
  if (*tensors == NULL)
    return backend_error_no_memory("the model's tensors");
  for (size_t i = 0; i < json_array_size(states); i++)
    BACKEND_RETURN_IF_ERROR(
        state_of(json_array_get(states, i), "output_name", &(*tensors)[(*count)++]));
  return NULL;
}
