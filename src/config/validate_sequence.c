// SPDX-License-Identifier: Apache-2.0
// The rules of sequence batching: controls, strategies, states. Called from load threads. Texts are
// Triton's.
#include "config/rules.h"

#include <inttypes.h>

typedef Inference__ModelSequenceBatching__Control control;
typedef Inference__ModelSequenceBatching__ControlInput control_input;
typedef Inference__ModelSequenceBatching__State state;
typedef Inference__ModelSequenceBatching__InitialState initial_state;

#define START  INFERENCE__MODEL_SEQUENCE_BATCHING__CONTROL__KIND__CONTROL_SEQUENCE_START
#define READY  INFERENCE__MODEL_SEQUENCE_BATCHING__CONTROL__KIND__CONTROL_SEQUENCE_READY
#define END    INFERENCE__MODEL_SEQUENCE_BATCHING__CONTROL__KIND__CONTROL_SEQUENCE_END
#define CORRID INFERENCE__MODEL_SEQUENCE_BATCHING__CONTROL__KIND__CONTROL_SEQUENCE_CORRID

// ---- controls ----

static const char *kind_name(int kind)
{
  const ProtobufCEnumDescriptor *kinds =
      &inference__model_sequence_batching__control__kind__descriptor;
  return protobuf_c_enum_descriptor_get_value(kinds, kind)->name;
}

static phrase control_path(size_t input, size_t index)
{
  return say("sequence_batching.control_input[%zu].control[%zu]", input, index);
}

// False and true must be two values of one type.
static void check_boolean(rules *r, const control *c, const char *path)
{
  const char *kind = kind_name((int)c->kind);
  const struct {
    const char *field;
    size_t count;
  } values[] = {{"int32_false_true", c->n_int32_false_true},
                {"fp32_false_true", c->n_fp32_false_true},
                {"bool_false_true", c->n_bool_false_true}};
  const size_t given =
      (size_t)(c->n_int32_false_true > 0) + (c->n_fp32_false_true > 0) + (c->n_bool_false_true > 0);
  if (given == 0)
    refuse(r, path, "for example int32_false_true: [0, 1]",
           "sequence batching must specify either 'int32_false_true', 'fp32_false_true' or "
           "'bool_false_true' for %s for %s",
           kind, r->config->name);
  if (given > 1)
    refuse(r, path, "keep that of the tensor's data type",
           "sequence batching specifies more than one from 'int32_false_true', "
           "'fp32_false_true' and 'bool_false_true' for %s for %s",
           kind, r->config->name);
  for (size_t i = 0; given == 1 && i < sizeof(values) / sizeof(values[0]); i++) {
    if (values[i].count != 0 && values[i].count != 2)
      refuse(r, say("%s.%s", path, values[i].field).text,
             "give the value for false, then that for true",
             "sequence batching control '%s' must have exactly 2 entries for %s for %s",
             values[i].field, kind, r->config->name);
  }
}

static void check_correlation(rules *r, const control *c, const char *path)
{
  if (c->n_int32_false_true > 0 || c->n_fp32_false_true > 0 || c->n_bool_false_true > 0)
    refuse(r, path, "the tensor holds the sequence's id: give data_type instead",
           "sequence batching must not specify either 'int32_false_true', 'fp32_false_true' or "
           "'bool_false_true' for %s for %s",
           kind_name(CORRID), r->config->name);
}

static void check_correlation_type(rules *r, const control *c, const char *path)
{
  switch (c->data_type) {
  case INFERENCE__DATA_TYPE__TYPE_UINT64:
  case INFERENCE__DATA_TYPE__TYPE_INT64:
  case INFERENCE__DATA_TYPE__TYPE_UINT32:
  case INFERENCE__DATA_TYPE__TYPE_INT32:
  case INFERENCE__DATA_TYPE__TYPE_STRING:
    return;
  default:
    refuse(r, say("%s.data_type", path).text, NULL,
           "unexpected data type for control %s for %s. Allowed data types are TYPE_UINT64, "
           "TYPE_INT64, TYPE_UINT32, TYPE_INT32 and TYPE_STRING",
           kind_name(CORRID), r->config->name);
  }
}

static void check_control_name(rules *r, const control_input *input, size_t index, string_map *seen)
{
  const phrase path = say("sequence_batching.control_input[%zu].name", index);
  if (is_text(input->name, ""))
    refuse(r, path.text, "give the name of the model's tensor",
           "sequence batching control tensor must have a name for %s", r->config->name);
  else if (rules_repeats(r, seen, input->name))
    refuse(r, path.text, "give each tensor one control_input with one control",
           "sequence batching control tensor '%s' is specified for multiple control kinds for %s",
           input->name, r->config->name);
}

// Kind by kind, as Triton; names are checked with the first kind.
static void check_controls(rules *r, int kind)
{
  const Inference__ModelSequenceBatching *batching = r->config->sequence_batching;
  const control *last = NULL;
  phrase last_path = {""};
  string_map seen = {0};
  for (size_t i = 0; i < batching->n_control_input; i++) {
    if (kind == START)
      check_control_name(r, batching->control_input[i], i, &seen);
    for (size_t j = 0; j < batching->control_input[i]->n_control; j++) {
      const control *c = batching->control_input[i]->control[j];
      if ((int)c->kind != kind)
        continue;
      const phrase path = control_path(i, j);
      if (last != NULL)
        refuse(r, path.text, "keep one of them",
               "sequence batching specifies multiple %s tensors for %s", kind_name(kind),
               r->config->name);
      else if (kind == CORRID)
        check_correlation(r, c, path.text);
      else
        check_boolean(r, c, path.text);
      last = c;
      last_path = path;
    }
  }
  string_map_fini(&seen);
  if (last != NULL && kind == CORRID)
    check_correlation_type(r, last, last_path.text);
}

// ---- strategies ----

static void check_oldest(rules *r, const Inference__ModelSequenceBatching__StrategyOldest *oldest)
{
  for (size_t i = 0; i < oldest->n_preferred_batch_size; i++) {
    const int32_t size = oldest->preferred_batch_size[i];
    const phrase path = say("sequence_batching.oldest.preferred_batch_size[%zu]", i);
    if (size <= 0)
      refuse(r, path.text, "give sizes from 1 on, or leave them out",
             "sequence batching preferred batch size must be positive for %s", r->config->name);
    else if (size > r->config->max_batch_size)
      refuse(r, path.text, say("max_batch_size is %" PRId32, r->config->max_batch_size).text,
             "sequence batching preferred batch size must be <= max batch size for %s",
             r->config->name);
  }
}

static void check_direct(rules *r, const Inference__ModelSequenceBatching__StrategyDirect *direct)
{
  if (direct->minimum_slot_utilization < 0 || direct->minimum_slot_utilization > 1)
    refuse(r, "sequence_batching.direct.minimum_slot_utilization",
           "it is the part of the slots that must have a request",
           "sequence batching minimum slot utilization must be in range (0.0, 1.0] for %s",
           r->config->name);
}

void rules_sequence_batching(rules *r)
{
  const Inference__ModelSequenceBatching *batching = r->config->sequence_batching;
  if (r->config->response_cache != NULL && r->config->response_cache->enable)
    refuse(r, "response_cache.enable", "leave out response_cache",
           "Response Cache does not currently support model %s with sequence batching scheduler. "
           "Please disable the response cache.",
           r->config->name);
  check_controls(r, START);
  check_controls(r, END);
  check_controls(r, READY);
  check_controls(r, CORRID);
  if (batching->strategy_choice_case == INFERENCE__MODEL_SEQUENCE_BATCHING__STRATEGY_CHOICE_OLDEST)
    check_oldest(r, batching->oldest);
  if (batching->strategy_choice_case == INFERENCE__MODEL_SEQUENCE_BATCHING__STRATEGY_CHOICE_DIRECT)
    check_direct(r, batching->direct);
}

// ---- states ----

static void check_initial_dims(rules *r, const state *s, const initial_state *initial,
                               const char *path)
{
  if (initial->n_dims != s->n_dims) {
    refuse(r, path, "give it as many dimensions as the state has",
           "Number of dimensions in 'initial_state' doesn't match the size of 'state' dimensions "
           "for state input '%s'. %zu != %zu",
           s->input_name, initial->n_dims, s->n_dims);
    return;
  }
  for (size_t i = 0; i < s->n_dims; i++) {
    const phrase dim = say("%s[%zu]", path, i);
    if (initial->dims[i] == -1)
      refuse(r, dim.text, "a first state has a size: give it",
             "'initial_state' field for state input name '%s' contains variable dimensions.",
             s->input_name);
    else if (s->dims[i] != -1 && initial->dims[i] != s->dims[i])
      refuse(r, dim.text, "give the state's own dimensions",
             "'initial_state' dim for input name '%s' doesn't match 'state' dim description. "
             "%" PRId64 " != %" PRId64,
             s->input_name, initial->dims[i], s->dims[i]);
  }
}

static void check_initial(rules *r, const state *s, size_t index, string_map *seen)
{
  const initial_state *initial = s->initial_state[0];
  const phrase path = say("sequence_batching.state[%zu].initial_state[0]", index);
  if (initial->data_type != s->data_type)
    refuse(r, say("%s.data_type", path.text).text, "give the state's own data type",
           "The data type used for 'initial_state' field of state '%s' does not match the state "
           "data type.",
           s->input_name);
  if (is_text(initial->name, ""))
    refuse(r, say("%s.name", path.text).text, "give the first state a name",
           "Field 'name' must be set when using initial_state for state input '%s'.",
           s->input_name);
  if (rules_repeats(r, seen, s->input_name))
    refuse(r, say("sequence_batching.state[%zu].input_name", index).text, "keep one of them",
           "State input name '%s' specified more than once.", s->input_name);
  check_initial_dims(r, s, initial, say("%s.dims", path.text).text);
  if (initial->state_data_case ==
      INFERENCE__MODEL_SEQUENCE_BATCHING__INITIAL_STATE__STATE_DATA__NOT_SET)
    refuse(r, path.text, "set zero_data: true, or data_file",
           "initial_state setting expects state'%s' to have state_data set", s->input_name);
}

void rules_sequence_states(rules *r)
{
  const Inference__ModelSequenceBatching *batching = r->config->sequence_batching;
  string_map seen = {0};
  for (size_t i = 0; i < batching->n_state; i++) {
    const state *s = batching->state[i];
    if (s->n_initial_state > 1)
      refuse(r, say("sequence_batching.state[%zu].initial_state[1]", i).text, "keep one of them",
             "initial_state field for state input '%s' must contain exactly one or zero element. "
             "Found '%zu' elements.",
             s->input_name, s->n_initial_state);
    else if (s->n_initial_state == 1)
      check_initial(r, s, i, &seen);
  }
  string_map_fini(&seen);
}
