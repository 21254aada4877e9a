// Completes a model's configuration from its session, by Triton's rules; see onnx_model.h.
#include "onnx_model.h"

#include "backend_error.h"
#include "backend_log.h"

// A model can batch when each input and output is a tensor whose first dimension is open.
static bool first_dimension_open(const onnx_tensor_list *list)
{
  for (size_t i = 0; i < list->count; i++) {
    const onnx_tensor *tensor = &list->tensors[i];
    if (tensor->kind != ORT_KIND_TENSOR || tensor->shape.rank == 0 || tensor->shape.dims[0] != -1)
      return false;
  }
  return true;
}

static bool set(json_t *object, const char *key, json_t *value)
{
  return json_object_set_new(object, key, value) == 0;
}

static TRITONSERVER_Error *complete_batching(onnx_model *model, int64_t default_max_batch_size)
{
  json_t *config = model->config;
  if (!first_dimension_open(&model->signature.inputs) ||
      !first_dimension_open(&model->signature.outputs)) {
    if (model->max_batch_size == 0)
      return NULL;
    return backend_error_invalid(
        "autofill failed for model '%s': model does not support batching while "
        "non-zero max_batch_size is specified",
        model->name);
  }
  bool stored = true;
  if (model->max_batch_size == 0) {
    model->max_batch_size = default_max_batch_size;
    stored = set(config, "max_batch_size", json_integer(default_max_batch_size));
    BACKEND_LOG_INFO("model '%s' can batch and names no max_batch_size: set to %lld "
                     "(--backend-config=onnxruntime,default-max-batch-size)",
                     model->name, (long long)default_max_batch_size);
  }
  if (model->max_batch_size > 1 && json_object_get(config, "dynamic_batching") == NULL &&
      json_object_get(config, "sequence_batching") == NULL)
    stored = stored && set(config, "dynamic_batching", json_object());
  return stored ? NULL : backend_error_no_memory("the completed configuration");
}

// Without the batch's dimension. A tensor that is a scalar per request is [1] to clients.
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

static TRITONSERVER_Error *complete_tensors(onnx_model *model, const char *key,
                                            const onnx_tensor_list *list)
{
  json_t *entries = json_array();
  bool stored = entries != NULL;
  for (size_t i = 0; i < list->count; i++) {
    const onnx_tensor *tensor = &list->tensors[i];
    TRITONSERVER_Error *error = onnx_tensor_require(tensor);
    if (error != NULL) {
      json_decref(entries);
      return error;
    }
    json_t *entry = json_object();
    stored = stored && entry != NULL && set(entry, "name", json_string(tensor->name)) &&
             set(entry, "data_type", json_string(onnx_config_type(tensor->element_type))) &&
             add_shape(entry, &tensor->shape, model->max_batch_size > 0);
    stored = json_array_append_new(entries, entry) == 0 && stored;
  }
  stored = set(model->config, key, entries) && stored;
  return stored ? NULL : backend_error_no_memory("the completed configuration");
}

TRITONSERVER_Error *onnx_autocomplete(onnx_model *model, int64_t default_max_batch_size,
                                      bool *changed)
{
  bool inputs_given = json_array_size(json_object_get(model->config, "input")) > 0 ||
                      json_array_size(json_object_get(model->config, "batch_input")) > 0;
  bool outputs_given = json_array_size(json_object_get(model->config, "output")) > 0;
  *changed = false;
  if (inputs_given && outputs_given) {
    BACKEND_LOG_VERBOSE("skipping model configuration auto-complete for '%s': inputs and outputs "
                        "already specified",
                        model->name);
    return NULL;
  }
  *changed = true;
  BACKEND_RETURN_IF_ERROR(complete_batching(model, default_max_batch_size));
  if (!inputs_given)
    BACKEND_RETURN_IF_ERROR(complete_tensors(model, "input", &model->signature.inputs));
  if (!outputs_given)
    BACKEND_RETURN_IF_ERROR(complete_tensors(model, "output", &model->signature.outputs));
  return NULL;
}
