// SPDX-License-Identifier: Apache-2.0
// The rules of an ensemble beside the models of its steps: inputs and outputs exist, required
// inputs are given, types and shapes agree along the graph, and no step mixes outputs of different
// decoupled steps. Called on threads that load ensembles and by `nereid check`. Texts are Triton's.
#include "base/buffer.h"
#include "base/cleanup.h"
#include "config/rules.h"

#include <stdlib.h>

// Facts about a tensor of the ensemble, from the first model that names it.
typedef struct tensor_fact {
  const char *model;
  Inference__DataType type;
  const int64_t *dims;
  size_t dim_count;
  bool batching;
  bool reached; // by the flow of data, from the decoupled step `source`, if any:
  size_t source;
} tensor_fact;

typedef struct step_rules {
  rules *r;
  const char *id; // of the ensemble
  const config_step_model *steps;
  tensor_fact *facts;
  size_t fact_count;
  string_map by_name; // index + 1
} step_rules;

static void cleanup_step_rules(step_rules *s)
{
  free(s->facts);
  string_map_fini(&s->by_name);
}

static tensor_fact *find_fact(const step_rules *s, const char *name)
{
  const size_t index = (size_t)string_map_get(&s->by_name, slice_of(name));
  return index > 0 ? &s->facts[index - 1] : NULL;
}

static void add_fact(step_rules *s, const char *name, tensor_fact fact)
{
  if (!string_map_put(&s->by_name, slice_of(name), (void *)(s->fact_count + 1)))
    s->r->found->failed = true;
  else
    s->facts[s->fact_count++] = fact;
}

// ---- one type and shape ----

static bool are_alike(const int64_t *a, size_t a_count, const int64_t *b, size_t b_count)
{
  bool alike = a_count == b_count;
  for (size_t i = 0; alike && i < a_count; i++)
    alike = a[i] == b[i] || a[i] == -1 || b[i] == -1;
  return alike;
}

// A batch may be the first dimension of a model without batches, if that dimension is variable.
static bool fit(const tensor_fact *a, const tensor_fact *b)
{
  if (are_alike(a->dims, a->dim_count, b->dims, b->dim_count))
    return true;
  if (a->batching == b->batching)
    return false;
  const tensor_fact *rows = a->batching ? a : b, *plain = a->batching ? b : a;
  return plain->dim_count > 0 &&
         are_alike(rows->dims, rows->dim_count, plain->dims + 1, plain->dim_count - 1);
}

static void print_shape(buffer *out, const tensor_fact *fact)
{
  buffer_append_text(out, fact->batching ? "[-1" : "[");
  for (size_t i = 0; i < fact->dim_count; i++)
    buffer_append_format(out, "%s%lld", i > 0 || fact->batching ? "," : "",
                         (long long)fact->dims[i]);
  buffer_append_text(out, "]");
  buffer_append_char(out, '\0');
}

static const char *type_name(Inference__DataType type)
{
  const ProtobufCEnumValue *value =
      protobuf_c_enum_descriptor_get_value(&inference__data_type__descriptor, (int)type);
  return value != NULL ? value->name : "TYPE_INVALID";
}

static void check_fit(step_rules *s, const char *path, const char *name, const tensor_fact *before,
                      const tensor_fact *now)
{
  AUTO_BUFFER buffer first = BUFFER_EMPTY, second = BUFFER_EMPTY;
  if (before->type != now->type) {
    refuse(s->r, path, "both ends of a tensor need one data type",
           "in ensemble %s, ensemble tensor %s: inconsistent data type: %s is inferred from model "
           "%s while %s is inferred from model %s",
           s->id, name, type_name(before->type), before->model, type_name(now->type), now->model);
    return;
  }
  if (fit(before, now))
    return;
  print_shape(&first, before);
  print_shape(&second, now);
  if (first.failed || second.failed)
    s->r->found->failed = true;
  else
    refuse(s->r, path,
           "both ends of a tensor need one shape; a first dimension of -1 stands for the batch "
           "where a model has none",
           "in ensemble %s, ensemble tensor %s: inconsistent shape: %s is inferred from model %s "
           "while %s is inferred from model %s",
           s->id, name, first.data, before->model, second.data, now->model);
}

static void note(step_rules *s, const char *path, const char *name, tensor_fact fact)
{
  const tensor_fact *before = find_fact(s, name);
  if (before == NULL)
    add_fact(s, name, fact);
  else
    check_fit(s, path, name, before, &fact);
}

// ---- one step ----

static const Inference__ModelInput *input_of(const Inference__ModelConfig *config, const char *name)
{
  for (size_t i = 0; i < config->n_input; i++)
    if (is_text(config->input[i]->name, name))
      return config->input[i];
  return NULL;
}

static const Inference__ModelOutput *output_of(const Inference__ModelConfig *config,
                                               const char *name)
{
  for (size_t i = 0; i < config->n_output; i++)
    if (is_text(config->output[i]->name, name))
      return config->output[i];
  return NULL;
}

static const Inference__ModelEnsembling__Step *step_at(const step_rules *s, size_t index)
{
  return s->r->config->ensemble_scheduling->step[index];
}

static void check_inputs(step_rules *s, size_t index)
{
  const Inference__ModelEnsembling__Step *step = step_at(s, index);
  const config_step_model *at = &s->steps[index];
  const phrase path = say("ensemble_scheduling.step[%zu]", index);
  for (size_t i = 0; i < step->n_input_map; i++) {
    const char *key = step->input_map[i]->key, *tensor = step->input_map[i]->value;
    const phrase field = say("%s.input_map[\"%s\"]", path.text, key);
    const Inference__ModelInput *input = input_of(at->config, key);
    if (input == NULL)
      refuse(s->r, field.text, say("name an input of '%s'", step->model_name).text,
             "in ensemble %s, ensemble tensor %s is mapping to non-existing input %s in model %s",
             s->id, tensor, key, at->id);
    else
      note(s, field.text, tensor,
           (tensor_fact){.model = at->id,
                         .type = input->data_type,
                         .dims = input->dims,
                         .dim_count = input->n_dims,
                         .batching = at->config->max_batch_size > 0});
  }
  for (size_t i = 0; i < at->config->n_input; i++) {
    const Inference__ModelInput *input = at->config->input[i];
    bool given = input->optional;
    for (size_t k = 0; !given && k < step->n_input_map; k++)
      given = is_text(step->input_map[k]->key, input->name);
    if (!given)
      refuse(s->r, say("%s.input_map", path.text).text,
             "map a tensor to it, or make it optional in the model",
             "in ensemble %s, input %s in model %s is not mapped to any ensemble tensors", s->id,
             input->name, at->id);
  }
}

static void check_outputs(step_rules *s, size_t index)
{
  const Inference__ModelEnsembling__Step *step = step_at(s, index);
  const config_step_model *at = &s->steps[index];
  for (size_t i = 0; i < step->n_output_map; i++) {
    const char *key = step->output_map[i]->key, *tensor = step->output_map[i]->value;
    const phrase field = say("ensemble_scheduling.step[%zu].output_map[\"%s\"]", index, key);
    const Inference__ModelOutput *output = output_of(at->config, key);
    if (output == NULL)
      refuse(s->r, field.text, say("name an output of '%s'", step->model_name).text,
             "in ensemble %s, ensemble tensor %s is mapped from non-existing output %s in model %s",
             s->id, tensor, key, step->model_name);
    else
      note(s, field.text, tensor,
           (tensor_fact){.model = at->id,
                         .type = output->data_type,
                         .dims = output->dims,
                         .dim_count = output->n_dims,
                         .batching = at->config->max_batch_size > 0});
  }
}

static void check_step(step_rules *s, size_t index)
{
  const int32_t whole = s->r->config->max_batch_size, part = s->steps[index].config->max_batch_size;
  if (part != 0 && part < whole)
    refuse(s->r, "max_batch_size", say("at most %d", (int)part).text,
           "ensemble %s allows maximum batch size %d, but it contains model %s which only allows "
           "maximum batch size to be %d",
           s->id, (int)whole, step_at(s, index)->model_name, (int)part);
  check_inputs(s, index);
  check_outputs(s, index);
}

static void note_own(step_rules *s)
{
  const Inference__ModelConfig *config = s->r->config;
  for (size_t i = 0; i < config->n_input; i++) {
    const Inference__ModelInput *input = config->input[i];
    const bool other = input->reshape != NULL;
    add_fact(s, input->name,
             (tensor_fact){.model = s->id,
                           .type = input->data_type,
                           .dims = other ? input->reshape->shape : input->dims,
                           .dim_count = other ? input->reshape->n_shape : input->n_dims,
                           .batching = config->max_batch_size > 0,
                           .reached = true});
  }
  for (size_t i = 0; i < config->n_output; i++) {
    const Inference__ModelOutput *output = config->output[i];
    const bool other = output->reshape != NULL;
    if (find_fact(s, output->name) == NULL) // a tensor that is an input too comes from no step
      add_fact(s, output->name,
               (tensor_fact){.model = s->id,
                             .type = output->data_type,
                             .dims = other ? output->reshape->shape : output->dims,
                             .dim_count = other ? output->reshape->n_shape : output->n_dims,
                             .batching = config->max_batch_size > 0});
  }
}

// ---- decoupled steps ----

// The decoupled step from which the step's inputs come, if any. False: some inputs are not reached
// yet.
static bool meet(step_rules *s, size_t index, size_t *source, bool *mixed)
{
  const Inference__ModelEnsembling__Step *step = step_at(s, index);
  *mixed = false;
  for (size_t i = 0; i < step->n_input_map; i++) {
    const tensor_fact *fact = find_fact(s, step->input_map[i]->value);
    if (fact == NULL || !fact->reached)
      return false;
    *mixed = *mixed || (i > 0 && fact->source != *source);
    *source = i == 0 ? fact->source : *source;
  }
  return step->n_input_map > 0;
}

static void refuse_mixed(step_rules *s, const char *path, const char *model)
{
  refuse(s->r, path, "let each step take what comes of one decoupled step, or of none",
         "in ensemble %s, step of model '%s' receives inputs originated from different decoupled "
         "models",
         s->id, model);
}

// Whether this call reached the step's outputs.
static bool pass(step_rules *s, size_t index, size_t *sources)
{
  size_t source = 0;
  bool mixed, news = false;
  const Inference__ModelEnsembling__Step *step = step_at(s, index);
  if (step->n_output_map == 0 || !meet(s, index, &source, &mixed))
    return false;
  tensor_fact *first = find_fact(s, step->output_map[0]->value);
  if (mixed && first != NULL && !first->reached)
    refuse_mixed(s, say("ensemble_scheduling.step[%zu].input_map", index).text, first->model);
  if (first != NULL && !first->reached && config_is_decoupled(s->steps[index].config))
    source = ++*sources;
  for (size_t i = 0; i < step->n_output_map; i++) {
    tensor_fact *fact = find_fact(s, step->output_map[i]->value);
    if (fact == NULL || fact->reached)
      continue;
    fact->reached = news = true;
    fact->source = source;
  }
  return news;
}

// Whether answers come from decoupled steps. Each turn reaches the outputs of at least one more
// step.
static bool check_flow(step_rules *s)
{
  const Inference__ModelConfig *config = s->r->config;
  size_t sources = 0;
  bool news = true;
  while (news) {
    news = false;
    for (size_t i = 0; i < config->ensemble_scheduling->n_step; i++)
      news = pass(s, i, &sources) || news;
  }
  for (size_t i = 1; i < config->n_output; i++) {
    const tensor_fact *a = find_fact(s, config->output[0]->name),
                      *b = find_fact(s, config->output[i]->name);
    if (a == NULL || b == NULL || !a->reached || !b->reached || a->source == b->source)
      continue;
    refuse_mixed(s, "output", s->id);
    break;
  }
  return sources > 0;
}

static void rules_steps(rules *r, const char *id, const config_step_model *steps, bool *decoupled)
{
  const Inference__ModelConfig *config = r->config;
  size_t count = config->n_input + config->n_output + 1;
  const size_t errors = r->found->errors;
  step_rules s __attribute__((cleanup(cleanup_step_rules))) = {r, id, steps, NULL, 0, {0}};
  for (size_t i = 0; i < config->ensemble_scheduling->n_step; i++)
    count += config->ensemble_scheduling->step[i]->n_input_map +
             config->ensemble_scheduling->step[i]->n_output_map;
  s.facts = calloc(count, sizeof(*s.facts));
  if (s.facts == NULL) {
    r->found->failed = true;
    return;
  }
  note_own(&s);
  for (size_t i = 0; i < config->ensemble_scheduling->n_step; i++)
    if (steps[i].config != NULL)
      check_step(&s, i);
  for (size_t i = 0; i < config->ensemble_scheduling->n_step; i++)
    if (steps[i].config == NULL)
      return;
  if (r->found->errors == errors && !r->found->failed)
    *decoupled = check_flow(&s);
}

error *config_validate_steps(const Inference__ModelConfig *config, const char *id,
                             const config_step_model *steps, const source_map *source,
                             bool *decoupled)
{
  AUTO_DIAGNOSTICS diagnostics found = DIAGNOSTICS_EMPTY;
  rules r = {config, CONFIG_NO_GPUS, source, &found, true};
  *decoupled = false;
  rules_steps(&r, id, steps, decoupled);
  return diagnostics_first_error(&found, source != NULL ? source->file_name : NULL);
}

void config_diagnose_steps(const Inference__ModelConfig *config, const char *id,
                           const config_step_model *steps, const source_map *source,
                           diagnostics *found)
{
  bool decoupled;
  rules r = {config, CONFIG_NO_GPUS, source, found, false};
  rules_steps(&r, id, steps, &decoupled);
}
