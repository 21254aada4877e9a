// SPDX-License-Identifier: Apache-2.0
// From `sequence_batching.state` to rules, with the bytes of first states. Load threads.
#include "core/state_rules.h"

#include "base/log.h"
#include "core/state_memory.h"
#include "core/tensor_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER "initial_state/"

typedef Inference__ModelSequenceBatching__State state_config;
typedef Inference__ModelSequenceBatching__InitialState initial_config;

static const initial_config *initial_of(const state_config *state)
{
  return state->n_initial_state > 0 ? state->initial_state[0] : NULL;
}

// Open dimensions are those of the first state, else 1.
static error *set_dims(const model *m, const state_config *state, state_rule *rule)
{
  const initial_config *initial = initial_of(state);
  bool batched = m->shared.max_batch_size > 0;
  int64_t *dims = calloc(state->n_dims + 1, sizeof(*dims));
  if (dims == NULL)
    return error_no_memory();
  dims[0] = 1;
  for (size_t i = 0; i < state->n_dims; i++) {
    int64_t given = initial != NULL ? initial->dims[i] : state->dims[i];
    dims[i + batched] = given == -1 ? 1 : given;
  }
  rule->dims = dims;
  rule->dim_count = (uint32_t)(state->n_dims + batched);
  return tensor_least_bytes(rule->datatype, dims, rule->dim_count, &rule->initial_size)
             ? NULL
             : error_new(ERROR_INVALID_ARG,
                         "byte size for tensor '%s' exceeds maximum size of %" PRId64,
                         state->input_name, INT64_MAX);
}

static error *read_file(const model *m, const char *name, state_rule *rule)
{
  void *data = NULL;
  size_t expected = rule->initial_size;
  error *e = model_read_tensor(m, FOLDER, name, rule->datatype, &data, &rule->initial_size);
  rule->initial = data;
  if (e == NULL && rule->initial_size < expected && rule->datatype != TRITONSERVER_TYPE_BYTES)
    return error_new(ERROR_INVALID_ARG,
                     "initial_state setting expects %zu bytes, but the data provided from %s only "
                     "has %zu bytes.",
                     expected, name, rule->initial_size);
  return e;
}

static error *make_rule(const model *m, const state_config *state, state_rule *rule)
{
  const initial_config *initial = initial_of(state);
  *rule = (state_rule){
      .input_name = state->input_name,
      .output_name = state->output_name,
      .datatype = (TRITONSERVER_DataType)state->data_type,
      .same_buffer = state->use_same_buffer_for_input_output,
      .grows = state->use_growable_memory,
  };
  RETURN_IF_ERROR(set_dims(m, state, rule));
  bool from_file = initial != NULL &&
                   initial->state_data_case ==
                       INFERENCE__MODEL_SEQUENCE_BATCHING__INITIAL_STATE__STATE_DATA_DATA_FILE;
  return from_file ? read_file(m, initial->data_file, rule) : NULL;
}

// ---- what Triton checks at a sequence's first request, and logs ----

static bool has_cpu_instances(const model *m)
{
  for (size_t i = 0; i < m->config->n_instance_group; i++)
    if (m->config->instance_group[i]->kind != INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_GPU)
      return true;
  return false;
}

static bool is_unusable(const model *m, const state_config *state)
{
  if (!state->use_growable_memory)
    return false;
  if (!state->use_same_buffer_for_input_output)
    log_warning("model '%s': In order to 'use_growable_memory', you must also enable "
                "'use_single_buffer' for state input name '%s'.",
                m->name, state->input_name);
  else if (!has_cpu_instances(m))
    return false;
  else
    log_warning("model '%s': 'use_growable_memory' can only work with KIND_GPU model instances "
                "right now. Please either change the instance type to KIND_GPU or set "
                "'use_growable_memory' to false for state input '%s'.",
                m->name, state->input_name);
  return true;
}

static bool is_duplicate(const model *m, const state_rules *rules, const state_config *state)
{
  for (size_t i = 0; i < rules->count; i++) {
    const state_rule *rule = &rules->items[i];
    bool same_input = strcmp(rule->input_name, state->input_name) == 0;
    if (!same_input && strcmp(rule->output_name, state->output_name) != 0)
      continue;
    log_warning("model '%s': Detected duplicate '%s' in the state configuration: '%s'. This state "
                "configuration will be ignored.",
                m->name, same_input ? "input_name" : "output_name",
                same_input ? state->input_name : state->output_name);
    return true;
  }
  return false;
}

// ---- all of them ----

static error *fill_rules(const model *m, state_rules *rules)
{
  const Inference__ModelSequenceBatching *batching = m->config->sequence_batching;
  bool usable = true;
  for (size_t i = 0; i < batching->n_state; i++) {
    const state_config *state = batching->state[i];
    usable &= !is_unusable(m, state);
    if (!is_duplicate(m, rules, state))
      RETURN_IF_ERROR(make_rule(m, state, &rules->items[rules->count++]));
  }
  if (!usable) // as in Triton
    log_warning("model '%s': its sequences have no state", m->name);
  for (; !usable && rules->count > 0; rules->count--) {
    free((void *)rules->items[rules->count - 1].dims);
    free((void *)rules->items[rules->count - 1].initial);
  }
  return NULL;
}

error *state_rules_make(const model *m, state_rules **result)
{
  *result = NULL;
  if (m->config->scheduling_choice_case !=
          INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_SEQUENCE_BATCHING ||
      m->config->sequence_batching->n_state == 0)
    return NULL;
  state_rules *rules = calloc(1, sizeof(*rules));
  if (rules == NULL)
    return error_no_memory();
  *result = rules;
  RETURN_IF_ERROR(state_memory_new(m->environment.gpus, &rules->source));
  rules->source.clears = m->target.leaves_gaps;
  rules->items = calloc(m->config->sequence_batching->n_state, sizeof(*rules->items));
  return rules->items == NULL ? error_no_memory() : fill_rules(m, rules);
}

void state_rules_free(state_rules *rules)
{
  if (rules == NULL)
    return;
  for (size_t i = 0; i < rules->count; i++) {
    free((void *)rules->items[i].dims);
    free((void *)rules->items[i].initial);
  }
  state_memory_free(&rules->source);
  free(rules->items);
  free(rules);
}
