// SPDX-License-Identifier: Apache-2.0
// Warns of settings without effect: fields that nothing reads (field_effects.c), settings that
// others switch off, parameters that look like a known one. For config_diagnose on its caller's
// thread; loads do not call it.
#include "base/cleanup.h"
#include "config/field_effects.h"
#include "config/parameter_names.h"
#include "config/reflection.h"
#include "config/rules.h"
#include "config/suggestion.h"

#include <inttypes.h>
#include <stdlib.h>

// ---- fields that nothing reads ----

// Whether `name` is one of `names`, which are separated by blanks.
static bool is_among(const char *name, const char *names)
{
  const size_t size = strlen(name);
  for (const char *at = names; *at != '\0'; at += strspn(at, " ")) {
    const size_t length = strcspn(at, " ");
    if (length == size && strncmp(at, name, size) == 0)
      return true;
    at += length;
  }
  return false;
}

// A foreign backend may read any field.
static bool is_unread(const rules *r, const field_effect *effect)
{
  const char *backend = r->config->backend;
  return (backend_is_own(backend) || config_is_ensemble(r->config)) &&
         (effect->readers == NULL || !is_among(backend, effect->readers));
}

// The reason, or NULL: the field is read.
static const char *why_in_vain(const rules *r, const field_effect *effect)
{
  switch (effect->kind) {
  case FIELD_OF_BACKEND:
    return is_unread(r, effect) ? effect->reason : NULL;
  case FIELD_OF_MODELS:
    return config_is_ensemble(r->config) ? effect->reason : NULL;
  case FIELD_OF_GPUS:
    if (r->gpus.count == 0)
      return "there is no GPU";
    return effect->readers != NULL && is_unread(r, effect) ? effect->reason : NULL;
  case FIELD_UNUSED:
    return effect->reason;
  default:
    return NULL;
  }
}

static const field_effect *effect_of(const ProtobufCMessageDescriptor *message, field_ref field)
{
  const char *name = strchr(message->name, '.') + 1; // after the package
  const phrase full = say("%s.%s", name, field->name);
  return field_effect_of(full.text);
}

static void append_key(buffer *path, const ProtobufCMessage *entry)
{
  field_ref key = &entry->descriptor->fields[0];
  const scalar value = reflection_get(entry, key, 0);
  if (key->type == PROTOBUF_C_TYPE_STRING)
    buffer_append_json_string(path, slice_of(value.text));
  else
    buffer_append_format(path, "%" PRIu64, value.unsigned_integer);
}

static void walk(rules *r, const ProtobufCMessage *message, buffer *path);

// Visits the messages of a field that has an effect; of a map, the values of its entries.
static void walk_field(rules *r, const ProtobufCMessage *message, field_ref field, buffer *path)
{
  const bool map = reflection_is_map(field);
  const size_t size = path->size;
  for (size_t i = 0; !rules_over(r) && i < reflection_count(message, field); i++) {
    const ProtobufCMessage *child = reflection_get_message(message, field, i);
    if (map) {
      field_ref value = &child->descriptor->fields[1];
      if (value->type != PROTOBUF_C_TYPE_MESSAGE)
        return;
      buffer_append_char(path, '[');
      append_key(path, child);
      buffer_append_char(path, ']');
      child = reflection_get_message(child, value, 0);
    } else if (field->label == PROTOBUF_C_LABEL_REPEATED) {
      buffer_append_format(path, "[%zu]", i);
    }
    walk(r, child, path);
    path->size = size;
  }
}

// The text of `path`, NUL-terminated; "" when memory is short.
static const char *path_text(rules *r, buffer *path)
{
  buffer_append_char(path, '\0');
  if (path->failed) {
    r->found->failed = true;
    return "";
  }
  path->size--;
  return path->data;
}

static void walk(rules *r, const ProtobufCMessage *message, buffer *path)
{
  const size_t size = path->size;
  for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
    field_ref field = &message->descriptor->fields[i];
    if (reflection_count(message, field) == 0)
      continue;
    buffer_append_format(path, "%s%s", size > 0 ? "." : "", field->name);
    const field_effect *effect = effect_of(message->descriptor, field);
    const char *at = path_text(r, path);
    // A field that the file does not have is a default.
    const bool said = r->source == NULL || source_map_find_exact(r->source, at).line > 0;
    const char *why = effect != NULL ? why_in_vain(r, effect) : NULL;
    if (why != NULL) {
      if (said)
        rules_warn(r, at, "leave it out", "'%s' has no effect: %s", at, why);
    } else if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
      walk_field(r, message, field, path);
    }
    path->size = size;
  }
}

// ---- settings that others switch off ----

static void warn_of_policy(rules *r, const char *path, const Inference__ModelQueuePolicy *policy)
{
  if (policy != NULL &&
      policy->timeout_action == INFERENCE__MODEL_QUEUE_POLICY__TIMEOUT_ACTION__DELAY &&
      policy->default_timeout_microseconds == 0 && !policy->allow_timeout_override)
    rules_warn(r, say("%s.timeout_action", path).text,
               "set default_timeout_microseconds, or allow_timeout_override",
               "'timeout_action' has no effect: no request times out");
}

static void warn_of_levels(rules *r, const Inference__ModelDynamicBatching *batching)
{
  if (batching->priority_levels > 0)
    return;
  if (batching->default_priority_level > 0)
    rules_warn(r, "dynamic_batching.default_priority_level", "set priority_levels",
               "'default_priority_level' has no effect: there are no priority levels");
  if (batching->n_priority_queue_policy > 0)
    rules_warn(r, "dynamic_batching.priority_queue_policy", "set priority_levels",
               "'priority_queue_policy' has no effect: there are no priority levels");
}

static void warn_of_batching(rules *r)
{
  const Inference__ModelDynamicBatching *batching = r->config->dynamic_batching;
  warn_of_levels(r, batching);
  warn_of_policy(r, "dynamic_batching.default_queue_policy", batching->default_queue_policy);
  for (size_t i = 0; i < batching->n_priority_queue_policy; i++) {
    const phrase path = say("dynamic_batching.priority_queue_policy[%" PRIu64 "]",
                            batching->priority_queue_policy[i]->key);
    warn_of_policy(r, path.text, batching->priority_queue_policy[i]->value);
  }
  // Backends may read a batch size from the model itself.
  if (r->config->max_batch_size != 0 || is_text(r->config->backend, "onnxruntime"))
    return;
  rules_warn(r, "dynamic_batching", "set max_batch_size",
             "'dynamic_batching' makes no batches: 'max_batch_size' is 0");
  if (batching->max_queue_delay_microseconds > 0)
    rules_warn(r, "dynamic_batching.max_queue_delay_microseconds", "leave it out",
               "'max_queue_delay_microseconds' has no effect: there is no batch to wait for");
}

static void warn_of_versions(rules *r)
{
  const Inference__ModelVersionPolicy *policy = r->config->version_policy;
  if (policy == NULL)
    return;
  if (policy->policy_choice_case == INFERENCE__MODEL_VERSION_POLICY__POLICY_CHOICE_LATEST &&
      policy->latest->num_versions == 0)
    rules_warn(r, "version_policy.latest", "set num_versions",
               "'version_policy' serves no version: the latest 0");
  if (policy->policy_choice_case == INFERENCE__MODEL_VERSION_POLICY__POLICY_CHOICE_SPECIFIC &&
      policy->specific->n_versions == 0)
    rules_warn(r, "version_policy.specific", "name versions",
               "'version_policy' serves no version: it names none");
}

static void warn_of_samples(rules *r)
{
  for (size_t i = 0; i < r->config->n_model_warmup; i++) {
    if (r->config->model_warmup[i]->batch_size == 0)
      rules_warn(r, say("model_warmup[%zu]", i).text, "set batch_size",
                 "warm-up sample '%s' is skipped: its 'batch_size' is 0",
                 r->config->model_warmup[i]->name);
  }
}

// Incomplete controls are reported by the rules.
static bool is_complete(const Inference__ModelMetrics__MetricControl *control)
{
  return control->metric_identifier != NULL && !is_text(control->metric_identifier->family, "") &&
         control->metric_options_case ==
             INFERENCE__MODEL_METRICS__METRIC_CONTROL__METRIC_OPTIONS_HISTOGRAM_OPTIONS;
}

static void warn_of_metrics(rules *r)
{
  const Inference__ModelMetrics *metrics = r->config->model_metrics;
  for (size_t i = 0; metrics != NULL && i < metrics->n_metric_control; i++) {
    const Inference__ModelMetrics__MetricControl *control = metrics->metric_control[i];
    const char *why = is_complete(control) ? config_metric_in_vain(control) : NULL;
    if (why != NULL)
      rules_warn(r, say("model_metrics.metric_control[%zu]", i).text, NULL,
                 "Metric family '%s' in 'metric_identifier' %s", control->metric_identifier->family,
                 why);
  }
}

// ---- shapes ----

// Whether the first dimension looks like a batch's: other dimensions follow, all fixed.
static bool is_led_by(const int64_t *dims, size_t count, int64_t first)
{
  bool led = count > 1 && dims[0] == first;
  for (size_t i = 1; i < count; i++)
    led = led && dims[i] > 0;
  return led;
}

// If all tensors begin with -1, or with the batch's size, that is most likely the batch dimension,
// which does not belong into 'dims'.
static void warn_of_batch_dimension(rules *r)
{
  const Inference__ModelConfig *config = r->config;
  if (config->max_batch_size <= 1 || config->n_input == 0 || config->n_output == 0 ||
      config->input[0]->n_dims == 0)
    return;
  const int64_t first = config->input[0]->dims[0];
  bool all = first == -1 || first == config->max_batch_size;
  for (size_t i = 0; all && i < config->n_input; i++)
    all = is_led_by(config->input[i]->dims, config->input[i]->n_dims, first);
  for (size_t i = 0; all && i < config->n_output; i++)
    all = is_led_by(config->output[i]->dims, config->output[i]->n_dims, first);
  if (all)
    rules_warn(
        r, "input[0].dims[0]", "if it is the batch, leave it out in each 'dims'",
        "'dims' are without the batch dimension: where 'max_batch_size' is %d, input '%s' has one "
        "dimension more than its %zu 'dims'",
        config->max_batch_size, config->input[0]->name, config->input[0]->n_dims);
}

// ---- parameters ----

// A parameter may be the model's own, but not if its name is almost a known one.
static void warn_of_parameter(rules *r, const char *name)
{
  suggestion s = suggestion_of(slice_of(name));
  s.whole = true;
  for (const parameter_name *known = parameter_names; known->name != NULL; known++) {
    if (known->backend != NULL && !is_text(known->backend, r->config->backend))
      continue;
    if (is_text(known->name, name))
      return;
    suggestion_consider(&s, known->name);
  }
  if (s.best != NULL)
    rules_warn(r, say("parameters[\"%s\"]", name).text, say("did you mean '%s'?", s.best).text,
               "neither nereid nor backend '%s' knows parameter '%s'", r->config->backend, name);
}

void rules_effects(rules *r)
{
  AUTO_BUFFER buffer path = BUFFER_EMPTY;
  walk(r, &r->config->base, &path);
  if (r->config->scheduling_choice_case ==
      INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING)
    warn_of_batching(r);
  warn_of_versions(r);
  warn_of_samples(r);
  warn_of_metrics(r);
  warn_of_batch_dimension(r);
  for (size_t i = 0; !rules_over(r) && i < r->config->n_parameters; i++)
    warn_of_parameter(r, r->config->parameters[i]->key);
}
