// SPDX-License-Identifier: Apache-2.0
// Checks an identity model's configuration.
#include "identity_model.h"

#include "backend_error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char input_prefix[] = "INPUT";
static const char output_prefix[] = "OUTPUT";

static bool same_shape(const backend_shape *a, const backend_shape *b)
{
  return a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof(*a->dims)) == 0;
}

// The part of a tensor's name that identifies its pair.
static TRITONSERVER_Error *suffix_of(const char *name, const char *prefix, const char *direction,
                                     const char **suffix)
{
  size_t length = strlen(prefix);
  if (strncmp(name, prefix, length) != 0)
    return backend_error_invalid("expected %s name to follow %s<index> pattern, got '%s'",
                                 direction, prefix, name);
  *suffix = name + length;
  return NULL;
}

static TRITONSERVER_Error *find_partner(const backend_tensor_config *inputs, size_t count,
                                        const char *suffix, const backend_tensor_config **partner)
{
  for (size_t i = 0; i < count; i++) {
    const char *candidate = NULL;
    BACKEND_RETURN_IF_ERROR(suffix_of(inputs[i].name, input_prefix, "input", &candidate));
    if (strcmp(candidate, suffix) == 0) {
      *partner = &inputs[i];
      return NULL;
    }
  }
  return backend_error_invalid("expected input and output indices to match");
}

static TRITONSERVER_Error *make_pair(const backend_tensor_config *input,
                                     const backend_tensor_config *output, identity_pair *pair)
{
  char got[BACKEND_SHAPE_TEXT], wanted[BACKEND_SHAPE_TEXT];
  if (input->datatype != output->datatype)
    return backend_error_invalid("expected input and output datatype to match, got %s and %s",
                                 input->type_text, output->type_text);
  if (!same_shape(&input->model_dims, &output->model_dims))
    return backend_error_invalid("expected input and output shape to match, got %s and %s",
                                 backend_shape_text(&input->model_dims, got),
                                 backend_shape_text(&output->model_dims, wanted));
  pair->input_name = strdup(input->name);
  pair->output_name = strdup(output->name);
  if (pair->input_name == NULL || pair->output_name == NULL)
    return backend_error_no_memory("the model's tensors");
  pair->is_output = true;
  pair->datatype = input->datatype;
  pair->optional = input->optional;
  pair->absent_shape = input->model_dims;
  for (size_t i = 0; i < pair->absent_shape.rank; i++)
    if (pair->absent_shape.dims[i] == -1)
      pair->absent_shape.dims[i] = 1;
  return NULL;
}

// The configured tensors. Tensors of states are inputs and outputs, too.
typedef struct tensors {
  backend_tensor_config *inputs, *outputs;
  size_t input_count, output_count;
  backend_tensor_config *state_inputs, *state_outputs;
  size_t state_count;
} tensors;

static backend_tensor_config state_tensor(const json_t *state, const char *key)
{
  backend_tensor_config made = {.name = backend_json_text(state, key),
                                .type_text = backend_json_text(state, "data_type")};
  made.datatype = backend_datatype_of(made.type_text);
  return made;
}

static TRITONSERVER_Error *read_states(const json_t *config, tensors *t)
{
  const json_t *states = json_object_get(json_object_get(config, "sequence_batching"), "state");
  const size_t count = json_array_size(states);
  t->state_inputs = calloc(count + 1, sizeof(*t->state_inputs));
  t->state_outputs = calloc(count + 1, sizeof(*t->state_outputs));
  if (t->state_inputs == NULL || t->state_outputs == NULL)
    return backend_error_no_memory("the model's tensors");
  for (; t->state_count < count; t->state_count++) {
    const json_t *state = json_array_get(states, t->state_count);
    backend_tensor_config *input = &t->state_inputs[t->state_count];
    *input = state_tensor(state, "input_name");
    t->state_outputs[t->state_count] = state_tensor(state, "output_name");
    BACKEND_RETURN_IF_ERROR(
        backend_shape_from_json(&input->model_dims, json_object_get(state, "dims"), input->name));
  }
  return NULL;
}

static const backend_tensor_config *find_state_input(const tensors *t, const char *suffix)
{
  const char *candidate;
  for (size_t i = 0; i < t->state_count; i++)
    if (strncmp(t->state_inputs[i].name, input_prefix, sizeof(input_prefix) - 1) == 0) {
      candidate = t->state_inputs[i].name + sizeof(input_prefix) - 1;
      if (strcmp(candidate, suffix) == 0)
        return &t->state_inputs[i];
    }
  return NULL;
}

// The next state is the input with the same number. States with other names stay unchanged.
static TRITONSERVER_Error *match_state(identity_model *model, const tensors *t,
                                       const backend_tensor_config *state)
{
  const backend_tensor_config *input = NULL;
  for (size_t k = 0; k < model->pair_count; k++)
    if (strcmp(model->pairs[k].output_name, state->name) == 0) {
      model->pairs[k].is_state = model->pairs[k].datatype == state->datatype;
      return NULL;
    }
  if (strncmp(state->name, output_prefix, sizeof(output_prefix) - 1) != 0)
    return NULL;
  const char *suffix = state->name + sizeof(output_prefix) - 1;
  if ((input = find_state_input(t, suffix)) == NULL) {
    TRITONSERVER_ErrorDelete(find_partner(t->inputs, t->input_count, suffix, &input));
    if (input == NULL)
      return NULL;
  }
  backend_tensor_config output = *input;
  output.name = state->name;
  if (input->datatype != state->datatype)
    return NULL;
  identity_pair *pair = &model->pairs[model->pair_count++];
  BACKEND_RETURN_IF_ERROR(make_pair(input, &output, pair));
  pair->is_output = false;
  pair->is_state = true;
  return NULL;
}

static TRITONSERVER_Error *match_tensors(identity_model *model, const tensors *t)
{
  const size_t output_count = t->output_count;
  const backend_tensor_config *outputs = t->outputs;
  if (t->input_count != output_count && t->state_count == 0)
    return backend_error_invalid("model configuration must have equal input/output pairs");
  model->pairs = calloc(output_count + t->state_count + 1, sizeof(*model->pairs));
  if (model->pairs == NULL)
    return backend_error_no_memory("the model's tensors");
  for (size_t i = 0; i < output_count; i++) {
    const char *suffix = NULL;
    const backend_tensor_config *input = NULL;
    BACKEND_RETURN_IF_ERROR(suffix_of(outputs[i].name, output_prefix, "output", &suffix));
    if ((input = find_state_input(t, suffix)) == NULL)
      BACKEND_RETURN_IF_ERROR(find_partner(t->inputs, t->input_count, suffix, &input));
    model->pair_count = i + 1;
    BACKEND_RETURN_IF_ERROR(make_pair(input, &outputs[i], &model->pairs[i]));
  }
  for (size_t i = 0; i < t->state_count; i++)
    BACKEND_RETURN_IF_ERROR(match_state(model, t, &t->state_outputs[i]));
  return NULL;
}

static TRITONSERVER_Error *read_tensors(identity_model *model, const json_t *config)
{
  tensors t = {0};
  TRITONSERVER_Error *error = backend_tensor_configs(config, "input", &t.inputs, &t.input_count);
  if (error == NULL)
    error = backend_tensor_configs(config, "output", &t.outputs, &t.output_count);
  if (error == NULL)
    error = read_states(config, &t);
  if (error == NULL)
    error = match_tensors(model, &t);
  free(t.inputs);
  free(t.outputs);
  free(t.state_inputs);
  free(t.state_outputs);
  return error;
}

static TRITONSERVER_Error *read_parameters(identity_model *model, const json_t *config)
{
  const struct {
    const char *key;
    int64_t least;
    int64_t most;
    int64_t *value;
  } numbers[] = {
      {"execute_delay_ms", 0, 86400000, &model->execute_delay_ms},
      {"instance_wise_delay_multiplier", 0, 1000000, &model->delay_multiplier},
      {"nested_span_count", 0, 1000, &model->nested_span_count},
      {"single_activity_frequency", 1, 1000, &model->single_activity_frequency},
      {"creation_delay_sec", 0, 86400, &model->creation_delay_sec},
  };
  char where[512];
  snprintf(where, sizeof(where), "model '%.256s': parameter", model->name);
  for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
    BACKEND_RETURN_IF_ERROR(
        backend_read_integer(where, numbers[i].key, backend_parameter(config, numbers[i].key),
                             numbers[i].least, numbers[i].most, numbers[i].value));
  const char *tracing = backend_parameter(config, "enable_custom_tracing");
  model->custom_tracing = tracing != NULL && strcmp(tracing, "true") == 0;
  return NULL;
}

static TRITONSERVER_Error *read_config(identity_model *model, const json_t *config)
{
  model->batches = json_integer_value(json_object_get(config, "max_batch_size")) > 0;
  BACKEND_RETURN_IF_ERROR(read_tensors(model, config));
  return read_parameters(model, config);
}

TRITONSERVER_Error *identity_model_new(TRITONBACKEND_Model *model, const char *name,
                                       identity_model **result)
{
  json_t *config;
  BACKEND_RETURN_IF_ERROR(backend_model_config(model, &config));
  identity_model *made = calloc(1, sizeof(*made));
  TRITONSERVER_Error *error = NULL;
  if (made == NULL || (made->name = strdup(name)) == NULL) {
    error = backend_error_no_memory("the model");
  } else {
    made->single_activity_frequency = 1;
    error = read_config(made, config);
  }
  json_decref(config);
  if (error != NULL) {
    identity_model_free(made);
    return error;
  }
  *result = made;
  return NULL;
}

void identity_model_free(identity_model *model)
{
  if (model == NULL)
    return;
  if (model->input_bytes != NULL)
    backend_error_log(TRITONSERVER_MetricDelete(model->input_bytes), "delete a metric");
  for (size_t i = 0; i < model->pair_count; i++) {
    free(model->pairs[i].input_name);
    free(model->pairs[i].output_name);
  }
  free(model->pairs);
  free(model->name);
  free(model);
}
