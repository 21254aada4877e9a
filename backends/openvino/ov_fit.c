// SPDX-License-Identifier: Apache-2.0
// Changes a model to fit its configuration, as Triton does, with one improvement: the batch
// dimension stays open, so that any number of rows is computed without padding. Only if the model
// cannot have it open, it becomes max_batch_size.
#include "ov_model.h"

#include "backend_error.h"
#include "backend_log.h"

#include <stdlib.h>
#include <string.h>

// ---- types ----

static TRITONSERVER_Error *set_type(const ov_runtime *runtime, const ov_preprocess *steps,
                                    size_t index, bool is_input, int element)
{
  const ov_api *api = &runtime->api;
  ov_preprocess_info *info = NULL;
  ov_preprocess_tensor *tensor = NULL;
  int status = is_input
                   ? api->preprocess_prepostprocessor_get_input_info_by_index(steps, index, &info)
                   : api->preprocess_prepostprocessor_get_output_info_by_index(steps, index, &info);
  if (status == 0)
    status = is_input ? api->preprocess_input_info_get_tensor_info(info, &tensor)
                      : api->preprocess_output_info_get_tensor_info(info, &tensor);
  if (status == 0)
    status = is_input ? api->preprocess_input_tensor_info_set_element_type(tensor, element)
                      : api->preprocess_output_set_element_type(tensor, element);
  TRITONSERVER_Error *error = ov_error(runtime, status, "setting precision");
  if (tensor != NULL)
    (is_input ? api->preprocess_input_tensor_info_free
              : api->preprocess_output_tensor_info_free)(tensor);
  if (info != NULL)
    (is_input ? api->preprocess_input_info_free : api->preprocess_output_info_free)(info);
  return error;
}

// Unknown tensors are refused later.
static TRITONSERVER_Error *set_types(const framework_model *model, const char *key,
                                     const ov_preprocess *steps, bool *changed)
{
  const bool is_input = strcmp(key, "input") == 0;
  const framework_tensors *tensors =
      is_input ? &model->signature.inputs : &model->signature.outputs;
  backend_tensor_config *configs = NULL;
  size_t count = 0;
  TRITONSERVER_Error *error = backend_tensor_configs(model->config, key, &configs, &count);
  for (size_t i = 0; error == NULL && i < count; i++) {
    const framework_tensor *tensor = framework_tensor_find(tensors, configs[i].name);
    const int element = ov_element_of(ov_runtime_of(model), configs[i].datatype);
    if (tensor == NULL || element == tensor->native_type)
      continue;
    *changed = true;
    error = element < 0
                ? backend_error_internal("unsupported datatype %s for %s '%s' for model "
                                         "'%s'",
                                         configs[i].type_text, key, tensor->name, model->name)
                : set_type(ov_runtime_of(model), steps, tensor->position, is_input, element);
  }
  free(configs);
  return error;
}

static TRITONSERVER_Error *fit_types(framework_model *model, bool *changed)
{
  const ov_runtime *runtime = ov_runtime_of(model);
  ov_model_state *state = ov_state_of(model);
  ov_preprocess *steps = NULL;
  ov_model *built = NULL;
  OV_TRY(runtime, preprocess_prepostprocessor_create(state->model, &steps),
         "apply model input preprocessing");
  TRITONSERVER_Error *error = set_types(model, "input", steps, changed);
  if (error == NULL)
    error = set_types(model, "output", steps, changed);
  if (error == NULL && *changed)
    error = ov_error(runtime, runtime->api.preprocess_prepostprocessor_build(steps, &built),
                     "apply model input preprocessing");
  runtime->api.preprocess_prepostprocessor_free(steps);
  if (built != NULL) {
    runtime->api.model_free(state->model);
    state->model = built;
  }
  return error;
}

// ---- shapes ----

// The shapes of all inputs, to be changed.
typedef struct input_shapes {
  const char **names;
  ov_partial_shape *list;
  size_t count;
} input_shapes;

static TRITONSERVER_Error *read_shapes(const framework_model *model, input_shapes *shapes)
{
  const ov_runtime *runtime = ov_runtime_of(model);
  const framework_tensors *inputs = &model->signature.inputs;
  shapes->names = calloc(inputs->count + 1, sizeof(*shapes->names));
  shapes->list = calloc(inputs->count + 1, sizeof(*shapes->list));
  if (shapes->names == NULL || shapes->list == NULL)
    return backend_error_no_memory("the model's tensors");
  for (; shapes->count < inputs->count; shapes->count++) {
    ov_port *port = NULL;
    shapes->names[shapes->count] = inputs->list[shapes->count].name;
    OV_TRY(runtime, model_const_input_by_index(ov_state_of(model)->model, shapes->count, &port),
           "getting input infos");
    TRITONSERVER_Error *error =
        ov_error(runtime, runtime->api.port_get_partial_shape(port, &shapes->list[shapes->count]),
                 "retrieving original shapes");
    runtime->api.output_const_port_free(port);
    BACKEND_RETURN_IF_ERROR(error);
  }
  return NULL;
}

static void free_shapes(const framework_model *model, input_shapes *shapes)
{
  for (size_t i = 0; i < shapes->count; i++)
    ov_runtime_of(model)->api.partial_shape_free(&shapes->list[i]);
  free(shapes->names);
  free(shapes->list);
}

#define DIMENSION(size) ((ov_dimension){size, size})

// An input with another rank is refused later.
static TRITONSERVER_Error *configure_shape(const framework_model *model,
                                           const backend_tensor_config *config,
                                           const framework_tensor *tensor, ov_partial_shape *shape)
{
  const size_t batch = model->max_batch_size > 0 ? 1 : 0;
  if (tensor->any_rank || tensor->shape.rank != config->model_dims.rank + batch)
    return NULL;
  for (size_t i = 0; i < config->model_dims.rank; i++) {
    if (config->model_dims.dims[i] < -1 || config->model_dims.dims[i] == 0)
      return backend_error_internal("openvino backend does not support dimensions values other "
                                    "than `-1` or positive integers");
    shape->dims[i + batch] = DIMENSION(config->model_dims.dims[i]);
  }
  return NULL;
}

static TRITONSERVER_Error *configure_shapes(const framework_model *model, input_shapes *shapes)
{
  backend_tensor_config *configs = NULL;
  size_t count = 0;
  TRITONSERVER_Error *error = backend_tensor_configs(model->config, "input", &configs, &count);
  for (size_t i = 0; error == NULL && i < count; i++) {
    const framework_tensor *tensor =
        framework_tensor_find(&model->signature.inputs, configs[i].name);
    if (tensor != NULL)
      error = configure_shape(model, &configs[i], tensor, &shapes->list[tensor->position]);
  }
  free(configs);
  return error;
}

// Reshapes the model. If it batches, the first dimension becomes `batch` (-1: open).
static TRITONSERVER_Error *reshape(framework_model *model, int64_t batch)
{
  input_shapes shapes = {0};
  TRITONSERVER_Error *error = read_shapes(model, &shapes);
  if (error == NULL && ov_state_of(model)->reshapes)
    error = configure_shapes(model, &shapes);
  for (size_t i = 0; error == NULL && model->max_batch_size > 0 && i < shapes.count; i++)
    if (model->signature.inputs.list[i].shape.rank > 0)
      shapes.list[i].dims[0] = DIMENSION(batch);
  if (error == NULL)
    error = ov_error(ov_runtime_of(model),
                     ov_runtime_of(model)->api.model_reshape(
                         ov_state_of(model)->model, shapes.names, shapes.list, shapes.count),
                     batch > 0 ? "setting max batch size" : "setting shape");
  free_shapes(model, &shapes);
  return error == NULL ? ov_signature_read(model) : error;
}

// ---- the batch ----

// Whether each tensor's first dimension is `size`.
static bool have_first(const framework_tensors *tensors, int64_t size)
{
  for (size_t i = 0; i < tensors->count; i++) {
    const framework_tensor *tensor = &tensors->list[i];
    if (!tensor->any_rank && (tensor->shape.rank == 0 || tensor->shape.dims[0] != size))
      return false;
  }
  return true;
}

static void say_open(framework_tensors *tensors)
{
  for (size_t i = 0; i < tensors->count; i++)
    if (tensors->list[i].shape.rank > 0)
      tensors->list[i].shape.dims[0] = -1;
}

// Fixes the model's batch size to max_batch_size, as Triton does for all models.
static TRITONSERVER_Error *fix_batch(framework_model *model, bool *fixed)
{
  framework_signature *signature = &model->signature;
  const int64_t size = model->max_batch_size;
  BACKEND_RETURN_IF_ERROR(reshape(model, size));
  *fixed = have_first(&signature->inputs, size) && have_first(&signature->outputs, size);
  if (!*fixed)
    return NULL;
  ov_state_of(model)->fixed_batch = size;
  say_open(&signature->inputs);
  say_open(&signature->outputs);
  BACKEND_LOG_WARN("model '%s' takes batches of %lld rows only: its shapes do not follow the "
                   "first dimension of its inputs",
                   model->name, (long long)size);
  return NULL;
}

// Outputs that are not cut by rows may have any shape.
static bool needs_open_outputs(const framework_model *model)
{
  return json_array_size(json_object_get(model->config, "batch_output")) == 0 &&
         !have_first(&model->signature.outputs, -1);
}

static TRITONSERVER_Error *fit_batch(framework_model *model)
{
  const bool is_open = have_first(&model->signature.inputs, -1) && !ov_state_of(model)->reshapes;
  bool fixed = false;
  TRITONSERVER_Error *error = is_open ? NULL : reshape(model, -1);
  if (error == NULL && !needs_open_outputs(model))
    return NULL;
  TRITONSERVER_Error *second = fix_batch(model, &fixed);
  if (fixed) {
    TRITONSERVER_ErrorDelete(error);
    return NULL;
  }
  TRITONSERVER_ErrorDelete(second);
  return error != NULL ? error : reshape(model, -1); // the shape check then names the wrong shapes
}

TRITONSERVER_Error *ov_model_fit(framework_model *model)
{
  bool changed = false;
  BACKEND_RETURN_IF_ERROR(fit_types(model, &changed));
  BACKEND_RETURN_IF_ERROR(ov_signature_read(model));
  if (model->max_batch_size > 0)
    return fit_batch(model);
  return ov_state_of(model)->reshapes ? reshape(model, -1) : NULL;
}
