// SPDX-License-Identifier: Apache-2.0
// Compares a configuration with the model's signature. Load threads.
#include "framework_parts.h"

#include "backend_error.h"
#include "backend_log.h"
#include "base/buffer.h"

#include <stdlib.h>
#include <string.h>

// The configured tensors.
typedef struct configured_io {
  backend_tensor_config *inputs, *outputs;
  size_t input_count, output_count;
  backend_tensor_config *sequence_inputs, *states;
  size_t sequence_input_count, state_count;
  backend_batch_input *batch_inputs;
  size_t batch_input_count;
} configured_io;

// The error with both shapes, including the batch dimension if the model has one.
static TRITONSERVER_Error *wrong_shape(const framework_model *model, const framework_tensor *tensor,
                                       const backend_shape *configured)
{
  char wanted[BACKEND_SHAPE_TEXT], given[BACKEND_SHAPE_TEXT];
  const bool batches = model->max_batch_size > 0;
  backend_shape_text(configured, given);
  return backend_error_invalid(
      "model '%s', tensor '%s': the model expects %zu dimensions (shape %s) but "
      "the model configuration specifies %zu dimensions (%sshape %s%s)",
      model->name, tensor->name, tensor->shape.rank, backend_shape_text(&tensor->shape, wanted),
      configured->rank + (batches ? 1 : 0),
      batches ? "an initial batch dimension because max_batch_size > 0 followed by the explicit "
                "tensor shape, making complete "
              : "",
      !batches               ? ""
      : configured->rank > 0 ? "[-1,"
                             : "[-1",
      batches ? given + 1 : given);
}

// A model without a shape takes any.
static TRITONSERVER_Error *check_shape(const framework_model *model, const framework_tensor *tensor,
                                       const backend_shape *configured)
{
  size_t batch = model->max_batch_size > 0 ? 1 : 0;
  char text[BACKEND_SHAPE_TEXT];
  if (tensor->any_rank)
    return NULL;
  if (batch > 0 && (tensor->shape.rank == 0 || tensor->shape.dims[0] != -1))
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

// The requests' elements will be concatenated, so the model must take one open dimension.
static TRITONSERVER_Error *check_ragged(const framework_model *model,
                                        const framework_tensor *tensor,
                                        const backend_tensor_config *configured)
{
  char text[BACKEND_SHAPE_TEXT];
  if (configured->optional)
    return backend_error_invalid(
        "unable to load model '%s', configuration expects model provides input with shape [-1] for "
        "ragged input '%s', which is not supported for optional input",
        model->name, tensor->name);
  if (tensor->shape.rank != 1 || tensor->shape.dims[0] != -1)
    return backend_error_invalid(
        "unable to load model '%s', configuration expects model provides input with shape [-1]  "
        "for ragged input '%s', model provides %s",
        model->name, tensor->name, backend_shape_text(&tensor->shape, text));
  return NULL;
}

static const backend_batch_output *find_batch_output(const framework_model *model, const char *name)
{
  for (size_t i = 0; i < model->batch_output_count; i++)
    if (strcmp(model->batch_outputs[i].name, name) == 0)
      return &model->batch_outputs[i];
  return NULL;
}

static TRITONSERVER_Error *check_tensor(const framework_model *model,
                                        const framework_tensor *tensor,
                                        const backend_tensor_config *configured, const char *kind)
{
  if (tensor->refusal != NULL)
    return backend_error(TRITONSERVER_ERROR_UNSUPPORTED, "%s", tensor->refusal);
  if (!tensor->any_type && tensor->datatype != configured->datatype)
    return backend_error_invalid(
        "unable to load model '%s', configuration expects datatype %s for %s "
        "'%s', model provides %s",
        model->name, configured->type_text, kind, tensor->name,
        framework_config_type(tensor->datatype));
  return NULL;
}

static TRITONSERVER_Error *check_dims(const framework_model *model, const framework_tensor *tensor,
                                      const backend_tensor_config *configured)
{
  // A tensor of rank 0 is configured as [1].
  if (tensor->shape.rank == 0 && configured->model_dims.rank == 1 &&
      configured->model_dims.dims[0] == 1)
    return NULL;
  return check_shape(model, tensor, &configured->model_dims);
}

static int compare_names(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// The names of the tensors in alphabetical order; `more` may be NULL.
static char *list_names(const framework_tensors *list, const framework_tensors *more)
{
  const size_t count = list->count + (more != NULL ? more->count : 0);
  const char **names = calloc(count + 1, sizeof(*names));
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  if (names == NULL)
    return NULL;
  for (size_t i = 0; i < count; i++)
    names[i] = i < list->count ? list->list[i].name : more->list[i - list->count].name;
  qsort(names, count, sizeof(*names), compare_names);
  buffer_append_text(&text, "");
  for (size_t i = 0; i < count; i++)
    buffer_append_format(&text, "%s%s", i > 0 ? ", " : "", names[i]);
  free(names);
  return buffer_take_text(&text);
}

static TRITONSERVER_Error *unknown_tensor(const char *kind, const char *name,
                                          const framework_tensors *known,
                                          const framework_tensors *more)
{
  char *names = list_names(known, more);
  if (names == NULL)
    return backend_error_no_memory("the names of tensors");
  TRITONSERVER_Error *error = backend_error_invalid(
      "unexpected inference %s '%s', allowed %ss are: %s", kind, name, kind, names);
  free(names);
  return error;
}

static TRITONSERVER_Error *add_feed(framework_model *model, const backend_tensor_config *configured)
{
  const framework_tensor *tensor =
      framework_tensor_find(&model->signature.inputs, configured->name);
  bool overrides = tensor == NULL;
  if (tensor == NULL)
    tensor = framework_tensor_find(&model->signature.overridable, configured->name);
  if (tensor == NULL)
    return unknown_tensor("input", configured->name, &model->signature.inputs,
                          &model->signature.overridable);
  BACKEND_RETURN_IF_ERROR(check_tensor(model, tensor, configured, "input"));
  BACKEND_RETURN_IF_ERROR(configured->ragged ? check_ragged(model, tensor, configured)
                                             : check_dims(model, tensor, configured));
  framework_feed *feed = &model->feeds[model->feed_count];
  feed->name = tensor->name;
  feed->tensor = tensor;
  feed->datatype = configured->datatype;
  feed->scalar = tensor->shape.rank == 0 && configured->model_dims.rank == 1 &&
                 configured->model_dims.dims[0] == 1 && model->max_batch_size == 0;
  feed->optional = configured->optional || overrides;
  feed->ragged = configured->ragged;
  model->feed_count++;
  return NULL;
}

static TRITONSERVER_Error *find_source(const framework_model *model, const char *name,
                                       size_t *source)
{
  for (*source = 0; *source < model->feed_count; ++*source)
    if (strcmp(model->feeds[*source].name, name) == 0)
      return NULL;
  return backend_error_invalid("unknown source input name '%s' for %s", name, model->name);
}

// As in Triton, the model gets what is configured and may refuse it at execution.
static void warn_of_batch_tensor(const framework_model *model, const framework_batch_feed *feed,
                                 const char *name)
{
  const framework_tensor *tensor = framework_tensor_find(&model->signature.inputs, name);
  if (tensor == NULL)
    BACKEND_LOG_WARN("model '%s': batch input '%s' is no input of the model", model->name, name);
  else if (!tensor->any_type && tensor->datatype != feed->input.datatype)
    BACKEND_LOG_WARN("model '%s': batch input '%s' is made of %s, the model wants %s", model->name,
                     name, framework_config_type(feed->input.datatype),
                     framework_config_type(tensor->datatype));
}

static TRITONSERVER_Error *add_batch_feed(framework_model *model, const backend_batch_input *input)
{
  framework_batch_feed *feed = &model->batch_feeds[model->batch_feed_count];
  feed->input = *input;
  BACKEND_RETURN_IF_ERROR(find_source(model, input->source, &feed->source));
  for (size_t i = 0; i < input->target_count; i++)
    warn_of_batch_tensor(model, feed, backend_batch_target(input, i));
  model->batch_tensor_count += input->target_count;
  model->batch_feed_count++;
  return NULL;
}

static TRITONSERVER_Error *add_fetch(framework_model *model,
                                     const backend_tensor_config *configured)
{
  const framework_tensor *tensor =
      framework_tensor_find(&model->signature.outputs, configured->name);
  if (tensor == NULL)
    return unknown_tensor("output", configured->name, &model->signature.outputs, NULL);
  BACKEND_RETURN_IF_ERROR(check_tensor(model, tensor, configured, "output"));
  const backend_batch_output *scatter = find_batch_output(model, configured->name);
  if (scatter == NULL) // with scatter its shape is the model's for all responses together
    BACKEND_RETURN_IF_ERROR(check_dims(model, tensor, configured));
  framework_fetch *fetch = &model->fetches[model->fetch_count];
  fetch->name = tensor->name;
  fetch->tensor = tensor;
  fetch->datatype = configured->datatype;
  fetch->type_text = configured->type_text;
  fetch->scalar_shape = configured->model_dims;
  fetch->scatter = scatter;
  model->fetch_count++;
  return scatter == NULL ? NULL : find_source(model, scatter->source, &fetch->source);
}

static TRITONSERVER_Error *add_state(framework_model *model, const backend_tensor_config *state)
{
  size_t at = 0;
  while (at < model->fetch_count && strcmp(model->fetches[at].name, state->name) != 0)
    at++;
  if (at == model->fetch_count)
    BACKEND_RETURN_IF_ERROR(add_fetch(model, state));
  model->fetches[at].is_state = true;
  return NULL;
}

// Whether the input is configured, from requests or as a batch input.
static bool is_configured(const char *name, const configured_io *io)
{
  for (size_t i = 0; i < io->input_count; i++)
    if (strcmp(io->inputs[i].name, name) == 0)
      return true;
  for (size_t i = 0; i < io->sequence_input_count; i++)
    if (strcmp(io->sequence_inputs[i].name, name) == 0)
      return true;
  for (size_t i = 0; i < io->batch_input_count; i++)
    for (size_t k = 0; k < io->batch_inputs[i].target_count; k++)
      if (strcmp(backend_batch_target(&io->batch_inputs[i], k), name) == 0)
        return true;
  return false;
}

static const char *first_missing(const framework_model *model, const configured_io *io)
{
  for (size_t i = 0; i < model->signature.inputs.count; i++)
    if (!is_configured(model->signature.inputs.list[i].name, io))
      return model->signature.inputs.list[i].name;
  return NULL;
}

static TRITONSERVER_Error *check_names(const framework_model *model, const configured_io *io)
{
  const framework_signature *signature = &model->signature;
  for (size_t i = 0; i < io->input_count; i++)
    if (framework_tensor_find(&signature->inputs, io->inputs[i].name) == NULL &&
        framework_tensor_find(&signature->overridable, io->inputs[i].name) == NULL)
      return unknown_tensor("input", io->inputs[i].name, &signature->inputs,
                            &signature->overridable);
  return NULL;
}

// As in Triton, the number of inputs is checked before most names. Inputs that override an
// initializer, and optional inputs unknown to the model, do not count.
static TRITONSERVER_Error *check_count(const framework_model *model, const configured_io *io)
{
  size_t expected = io->sequence_input_count;
  for (size_t i = 0; i < io->input_count; i++)
    expected += framework_tensor_find(&model->signature.inputs, io->inputs[i].name) != NULL ||
                (!io->inputs[i].optional &&
                 framework_tensor_find(&model->signature.overridable, io->inputs[i].name) == NULL);
  for (size_t i = 0; i < io->batch_input_count; i++)
    expected += io->batch_inputs[i].target_count;
  const size_t provided = model->signature.inputs.count;
  if (expected == provided || (model->signature.open && expected < provided))
    return NULL;
  if (model->signature.open)
    return backend_error_invalid(
        "unable to load model '%s', configuration expects %zu inputs, model provides at most %zu",
        model->name, expected, provided);
  const char *missing = first_missing(model, io);
  return backend_error_invalid(
      "unable to load model '%s', configuration expects %zu inputs, model provides %zu%s%s%s",
      model->name, expected, provided, missing != NULL ? "\n  input '" : "",
      missing != NULL ? missing : "", missing != NULL ? "' is not configured" : "");
}

static TRITONSERVER_Error *read_io(framework_model *model, configured_io *io)
{
  BACKEND_RETURN_IF_ERROR(
      backend_tensor_configs(model->config, "input", &io->inputs, &io->input_count));
  BACKEND_RETURN_IF_ERROR(
      backend_tensor_configs(model->config, "output", &io->outputs, &io->output_count));
  BACKEND_RETURN_IF_ERROR(
      backend_batch_inputs(model->config, &io->batch_inputs, &io->batch_input_count));
  BACKEND_RETURN_IF_ERROR(
      backend_batch_outputs(model->config, &model->batch_outputs, &model->batch_output_count));
  BACKEND_RETURN_IF_ERROR(
      framework_sequence_inputs(model, &io->sequence_inputs, &io->sequence_input_count));
  BACKEND_RETURN_IF_ERROR(framework_sequence_outputs(model, &io->states, &io->state_count));
  model->feeds = calloc(io->input_count + io->sequence_input_count + 1, sizeof(*model->feeds));
  model->batch_feeds = calloc(io->batch_input_count + 1, sizeof(*model->batch_feeds));
  model->fetches = calloc(io->output_count + io->state_count + 1, sizeof(*model->fetches));
  if (model->feeds == NULL || model->batch_feeds == NULL || model->fetches == NULL)
    return backend_error_no_memory("the model's tensors");
  return NULL;
}

static TRITONSERVER_Error *add_all(framework_model *model, configured_io *io)
{
  BACKEND_RETURN_IF_ERROR(read_io(model, io));
  if (framework_definition.names_first)
    BACKEND_RETURN_IF_ERROR(check_names(model, io));
  BACKEND_RETURN_IF_ERROR(check_count(model, io));
  for (size_t i = 0; i < io->input_count; i++)
    BACKEND_RETURN_IF_ERROR(add_feed(model, &io->inputs[i]));
  for (size_t i = 0; i < io->sequence_input_count; i++)
    BACKEND_RETURN_IF_ERROR(add_feed(model, &io->sequence_inputs[i]));
  for (size_t i = 0; i < io->batch_input_count; i++)
    BACKEND_RETURN_IF_ERROR(add_batch_feed(model, &io->batch_inputs[i]));
  for (size_t i = 0; i < io->output_count; i++)
    BACKEND_RETURN_IF_ERROR(add_fetch(model, &io->outputs[i]));
  for (size_t i = 0; i < io->state_count; i++)
    BACKEND_RETURN_IF_ERROR(add_state(model, &io->states[i]));
  return NULL;
}

TRITONSERVER_Error *framework_validate(framework_model *model)
{
  configured_io io = {0};
  TRITONSERVER_Error *error = add_all(model, &io);
  free(io.inputs);
  free(io.outputs);
  free(io.sequence_inputs);
  free(io.states);
  free(io.batch_inputs);
  return error;
}
