// SPDX-License-Identifier: Apache-2.0
// Completes a configuration from a SavedModel's signature by the rules of Triton's TensorFlow
// backend. Load threads.
#include "tf_model.h"

#include "backend_error.h"

// What the configured tensors say about batching.
typedef enum batch_hint {
  BATCH_NO_HINT,
  BATCH_LIKELY, // a configured tensor has no dimensions
  BATCH_YES,    // one dimension less than in the model: the batch's is missing
  BATCH_NO,     // any other number of dimensions
} batch_hint;

static const json_t *list_of(const framework_model *model, const char *key)
{
  return json_object_get(model->config, key);
}

// Whether each tensor's first dimension is open. Unknown ranks are [-1] here; scalars have none.
static bool may_batch(const framework_tensors *tensors)
{
  for (size_t i = 0; i < tensors->count; i++)
    if (tensors->list[i].shape.rank == 0 || tensors->list[i].shape.dims[0] != -1)
      return false;
  return true;
}

static size_t configured_rank(const json_t *entry)
{
  const json_t *reshape = json_object_get(entry, "reshape");
  return json_array_size(reshape != NULL ? json_object_get(reshape, "shape")
                                         : json_object_get(entry, "dims"));
}

static TRITONSERVER_Error *hint_of(const framework_model *model, const json_t *entry,
                                   const framework_tensors *tensors, batch_hint *hint)
{
  const framework_tensor *tensor = framework_tensor_find(tensors, backend_json_text(entry, "name"));
  const size_t rank = configured_rank(entry);
  if (tensor == NULL || tensor->any_rank)
    return NULL;
  if (rank == 0) {
    *hint = *hint == BATCH_NO_HINT ? BATCH_LIKELY : *hint;
    return NULL;
  }
  const batch_hint said = rank + 1 == tensor->shape.rank ? BATCH_YES : BATCH_NO;
  if (said != *hint && (*hint == BATCH_YES || *hint == BATCH_NO))
    return backend_error_internal("unable to autofill for '%s', model tensor configurations are "
                                  "contradicting each other in terms of whether batching is "
                                  "supported",
                                  model->name);
  *hint = said;
  return NULL;
}

// A ragged tensor means that the model batches; later tensors are not looked at. INTERNAL if
// tensors contradict each other.
static TRITONSERVER_Error *find_hint(const framework_model *model, batch_hint *hint)
{
  const struct {
    const json_t *entries;
    const framework_tensors *tensors;
  } lists[] = {{list_of(model, "input"), &model->signature.inputs},
               {list_of(model, "output"), &model->signature.outputs}};
  *hint = BATCH_NO_HINT;
  if (json_array_size(lists[0].entries) + json_array_size(lists[1].entries) == 0)
    *hint = BATCH_YES; // the signature decides
  for (size_t i = 0; i < 2; i++)
    for (size_t k = 0; k < json_array_size(lists[i].entries); k++) {
      const json_t *entry = json_array_get(lists[i].entries, k);
      if (json_is_true(json_object_get(entry, "allow_ragged_batch"))) {
        *hint = BATCH_YES;
        return NULL;
      }
      BACKEND_RETURN_IF_ERROR(hint_of(model, entry, lists[i].tensors, hint));
    }
  return NULL;
}

static TRITONSERVER_Error *complete_batching(framework_model *model, bool *changed)
{
  batch_hint hint = BATCH_NO;
  const bool possible = may_batch(&model->signature.inputs) && may_batch(&model->signature.outputs);
  if (!possible && model->max_batch_size > 0)
    return backend_error_internal("unable to autofill for '%s', configuration specified max-batch "
                                  "%lld but model signature does not support batching",
                                  model->name, (long long)model->max_batch_size);
  if (possible)
    BACKEND_RETURN_IF_ERROR(find_hint(model, &hint));
  const bool batches =
      (hint == BATCH_YES || hint == BATCH_LIKELY) && model->default_max_batch_size > 0;
  if (!batches && model->max_batch_size == 0)
    return NULL;
  return framework_complete_batching(model, changed);
}

// Adds inputs that are not configured; outputs only if none is configured. A graph stays as it is.
TRITONSERVER_Error *tf_model_complete(framework_model *model, bool *changed)
{
  if (tf_model_of(model)->is_graph)
    return NULL; // its file has no signature
  const bool outputs_given = json_array_size(json_object_get(model->config, "output")) > 0;
  BACKEND_RETURN_IF_ERROR(complete_batching(model, changed));
  BACKEND_RETURN_IF_ERROR(
      framework_complete_list(model, "input", &model->signature.inputs, true, changed));
  return framework_complete_list(model, "output", &model->signature.outputs, !outputs_given,
                                 changed);
}
