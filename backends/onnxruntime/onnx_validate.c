// Compares a configuration with its session; see onnx_model.h.
#include "onnx_model.h"

#include "backend_error.h"

#include <stdlib.h>
#include <string.h>

static TRITONSERVER_Error *wrong_shape(const onnx_model *model, const onnx_tensor *tensor,
                                       const backend_shape *configured)
{
  char wanted[BACKEND_SHAPE_TEXT], given[BACKEND_SHAPE_TEXT];
  return backend_error_invalid(
      "model '%s', tensor '%s': the model expects %zu dimensions (shape %s) but "
      "the model configuration specifies %zu dimensions (%sshape %s)",
      model->name, tensor->name, tensor->shape.rank, backend_shape_text(&tensor->shape, wanted),
      configured->rank,
      model->max_batch_size > 0 ? "an initial batch dimension because "
                                  "max_batch_size > 0, then the explicit "
                                : "",
      backend_shape_text(configured, given));
}

// A model that names no shape looks like a scalar: then anything may come.
static TRITONSERVER_Error *check_shape(const onnx_model *model, const onnx_tensor *tensor,
                                       const backend_shape *configured)
{
  size_t batch = model->max_batch_size > 0 ? 1 : 0;
  char text[BACKEND_SHAPE_TEXT];
  if (tensor->shape.rank == 0)
    return NULL;
  if (batch > 0 && tensor->shape.dims[0] != -1)
    return backend_error_invalid(
        "model '%s', tensor '%s': for the model to support batching the shape "
        "should have at least 1 dimension and the first dimension must be -1; but "
        "shape expected by the model is %s",
        model->name, tensor->name, backend_shape_text(&tensor->shape, text));
  if (tensor->shape.rank != configured->rank + batch)
    return wrong_shape(model, tensor, configured);
  for (size_t i = 0; i < configured->rank; i++) {
    int64_t wanted = tensor->shape.dims[i + batch];
    if (wanted != -1 && configured->dims[i] != -1 && wanted != configured->dims[i])
      return wrong_shape(model, tensor, configured);
  }
  return NULL;
}

static TRITONSERVER_Error *check_tensor(const onnx_model *model, const onnx_tensor *tensor,
                                        const backend_tensor_config *configured, const char *kind)
{
  BACKEND_RETURN_IF_ERROR(onnx_tensor_require(tensor));
  if (onnx_datatype(tensor->element_type) != configured->datatype)
    return backend_error_invalid(
        "unable to load model '%s', configuration expects datatype %s for %s "
        "'%s', model provides %s",
        model->name, configured->type_text, kind, tensor->name,
        onnx_config_type(tensor->element_type));
  // One element in a tensor of rank 0 is [1] in configurations.
  if (tensor->shape.rank == 0 && configured->model_dims.rank == 1 &&
      configured->model_dims.dims[0] == 1)
    return NULL;
  return check_shape(model, tensor, &configured->model_dims);
}

static void append_names(const onnx_tensor_list *list, char *text, size_t room)
{
  for (size_t i = 0; i < list->count; i++) {
    size_t used = strlen(text);
    snprintf(text + used, room - used, "%s%s", i > 0 ? ", " : "", list->tensors[i].name);
  }
}

static TRITONSERVER_Error *unknown_tensor(const onnx_model *model, const char *kind,
                                          const char *name, const onnx_tensor_list *known)
{
  char names[512] = "";
  append_names(known, names, sizeof(names));
  return backend_error_invalid(
      "unable to load model '%s', unexpected inference %s '%s', allowed %ss are: "
      "%s",
      model->name, kind, name, kind, names);
}

static TRITONSERVER_Error *add_feed(onnx_model *model, const backend_tensor_config *configured)
{
  const onnx_tensor *tensor = onnx_tensor_find(&model->signature.inputs, configured->name);
  bool overrides = tensor == NULL;
  if (tensor == NULL)
    tensor = onnx_tensor_find(&model->signature.initializers, configured->name);
  if (tensor == NULL)
    return unknown_tensor(model, "input", configured->name, &model->signature.inputs);
  BACKEND_RETURN_IF_ERROR(check_tensor(model, tensor, configured, "input"));
  onnx_feed *feed = &model->feeds[model->feed_count];
  feed->name = strdup(configured->name);
  if (feed->name == NULL)
    return backend_error_no_memory("the model's inputs");
  feed->datatype = configured->datatype;
  feed->element_type = tensor->element_type;
  feed->scalar = tensor->shape.rank == 0 && configured->model_dims.rank == 1 &&
                 configured->model_dims.dims[0] == 1 && model->max_batch_size == 0;
  feed->optional = configured->optional || overrides;
  model->feed_count++;
  return NULL;
}

static TRITONSERVER_Error *add_fetch(onnx_model *model, const backend_tensor_config *configured)
{
  const onnx_tensor *tensor = onnx_tensor_find(&model->signature.outputs, configured->name);
  if (tensor == NULL)
    return unknown_tensor(model, "output", configured->name, &model->signature.outputs);
  BACKEND_RETURN_IF_ERROR(check_tensor(model, tensor, configured, "output"));
  onnx_fetch *fetch = &model->fetches[model->fetch_count];
  fetch->name = strdup(configured->name);
  if (fetch->name == NULL)
    return backend_error_no_memory("the model's outputs");
  fetch->scalar_shape = configured->model_dims;
  model->fetch_count++;
  return NULL;
}

static bool is_fed(const onnx_model *model, const char *name)
{
  for (size_t i = 0; i < model->feed_count; i++)
    if (strcmp(model->feeds[i].name, name) == 0)
      return true;
  return false;
}

static TRITONSERVER_Error *add_all(onnx_model *model, const backend_tensor_config *inputs,
                                   size_t input_count, const backend_tensor_config *outputs,
                                   size_t output_count)
{
  model->feeds = calloc(input_count + 1, sizeof(*model->feeds));
  model->fetches = calloc(output_count + 1, sizeof(*model->fetches));
  if (model->feeds == NULL || model->fetches == NULL)
    return backend_error_no_memory("the model's tensors");
  for (size_t i = 0; i < input_count; i++)
    BACKEND_RETURN_IF_ERROR(add_feed(model, &inputs[i]));
  for (size_t i = 0; i < output_count; i++)
    BACKEND_RETURN_IF_ERROR(add_fetch(model, &outputs[i]));
  for (size_t i = 0; i < model->signature.inputs.count; i++)
    if (!is_fed(model, model->signature.inputs.tensors[i].name))
      return backend_error_invalid(
          "unable to load model '%s', configuration expects %zu inputs, model "
          "provides %zu: input '%s' is not configured",
          model->name, model->feed_count, model->signature.inputs.count,
          model->signature.inputs.tensors[i].name);
  return NULL;
}

TRITONSERVER_Error *onnx_validate(onnx_model *model)
{
  backend_tensor_config *inputs = NULL, *outputs = NULL;
  size_t input_count = 0, output_count = 0;
  TRITONSERVER_Error *error = backend_tensor_configs(model->config, "input", &inputs, &input_count);
  if (error == NULL)
    error = backend_tensor_configs(model->config, "output", &outputs, &output_count);
  if (error == NULL)
    error = add_all(model, inputs, input_count, outputs, output_count);
  free(inputs);
  free(outputs);
  return error;
}
