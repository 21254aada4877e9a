// SPDX-License-Identifier: Apache-2.0
// The rules of a whole model, and the entry points: a load wants the first error, config_diagnose
// all of them. Called from load threads and by `nereid check`. Texts are Triton's, because tools
// and tests look for them; our own rules say what was expected.
#include "base/log.h"
#include "config/padding_config.h"
#include "config/rules.h"
#include "config/suggestion.h"

// ---- platform and backend ----

static void check_pair(rules *r)
{
  const Inference__ModelConfig *config = r->config;
  bool any = true; // stays true if the backend has no platforms of its own
  for (const backend_format *f = backend_traits_of(config->backend)->formats; f->file != NULL;
       f++) {
    if (f->platform != NULL && is_text(config->platform, f->platform))
      return;
    any = any && f->platform == NULL;
  }
  if (!any)
    refuse(r, "platform", "leave one of the two out: the other follows",
           "unexpected 'platform' and 'backend' pair, got:%s, %s", config->platform,
           config->backend);
}

static void refuse_platform(rules *r)
{
  const char *platform = r->config->platform;
  const char *nearest = backend_traits_nearest(platform);
  if (nearest == NULL && backend_traits_of(platform)->name != NULL)
    nearest = platform;
  const phrase fix = nearest != NULL ? say("write 'backend: \"%s\"' in its place", nearest)
                                     : say("name the backend");
  refuse(r, "platform", fix.text, "unexpected platform type '%s' for %s", platform,
         r->config->name);
}

static void check_platform(rules *r)
{
  const Inference__ModelConfig *config = r->config;
  const bool ensemble = is_text(config->platform, PLATFORM_ENSEMBLE);
  if (is_text(config->backend, "") && !ensemble)
    refuse_platform(r);
  else if (ensemble && !is_text(config->backend, ""))
    refuse(r, "backend", "leave it out",
           "Ensemble model '%s' must have platform type '%s' and empty backend type", config->name,
           config->platform);
  else if (!ensemble)
    check_pair(r);
}

error *config_check_name(const Inference__ModelConfig *config, const char *model_name)
{
  if (is_text(config->name, model_name))
    return NULL;
  return error_new(
      ERROR_INVALID_ARG,
      "unexpected directory name '%s' for model '%s', directory name must equal model name",
      model_name, config->name);
}

// ---- the rest of the model ----

static void check_scheduling(rules *r)
{
  switch (r->config->scheduling_choice_case) {
  case INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING:
    rules_dynamic_batching(r);
    break;
  case INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_SEQUENCE_BATCHING:
    rules_sequence_batching(r);
    if (config_parameter(r->config, "TRITON_BATCH_STRATEGY_PATH") != NULL)
      refuse(r, "parameters[\"TRITON_BATCH_STRATEGY_PATH\"]", "take the parameter away",
             "TRITON_BATCH_STRATEGY_PATH cannot be specified with sequence batcher, using default "
             "batching strategy");
    break;
  case INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_ENSEMBLE_SCHEDULING:
    rules_ensemble(r);
    return;
  default:
    break;
  }
  if (is_text(r->config->platform, PLATFORM_ENSEMBLE))
    refuse(r, "platform", "give ensemble_scheduling its steps",
           "ensemble scheduling must be set for ensemble %s whose platform is ensemble",
           r->config->name);
}

static void check_response_cache(rules *r)
{
  const Inference__ModelConfig *config = r->config;
  if (config->response_cache != NULL && config->response_cache->enable &&
      config_is_decoupled(config))
    refuse(r, "response_cache.enable", "leave out response_cache",
           "Response Cache does not currently support model %s with 'decoupled' transaction "
           "policy. Please disable the response cache.",
           config->name);
}

static void check_metric(rules *r, size_t index)
{
  const Inference__ModelMetrics__MetricControl *control =
      r->config->model_metrics->metric_control[index];
  const phrase path = say("model_metrics.metric_control[%zu]", index);
  if (control->metric_identifier == NULL)
    refuse(r, say("%s.metric_identifier", path.text).text, NULL,
           "metric control must specify 'metric_identifier'");
  else if (is_text(control->metric_identifier->family, ""))
    refuse(r, say("%s.metric_identifier.family", path.text).text, NULL,
           "metric identifier must specify non-empty 'family'");
  if (control->metric_options_case !=
      INFERENCE__MODEL_METRICS__METRIC_CONTROL__METRIC_OPTIONS_HISTOGRAM_OPTIONS)
    refuse(r, say("%s.histogram_options", path.text).text, NULL,
           "metric control must specify 'histogram_options'");
  else if (control->histogram_options->n_buckets == 0)
    refuse(r, say("%s.histogram_options.buckets", path.text).text, NULL,
           "histogram options must specify non-empty 'buckets'");
}

static void check_metrics(rules *r)
{
  const Inference__ModelMetrics *metrics = r->config->model_metrics;
  for (size_t i = 0; metrics != NULL && i < metrics->n_metric_control; i++)
    check_metric(r, i);
}

static void rules_model(rules *r)
{
  const Inference__ModelConfig *config = r->config;
  if (is_text(config->name, ""))
    refuse(r, "name", NULL, "model configuration must specify 'name'");
  check_platform(r);
  if (config->max_batch_size < 0)
    refuse(r, "max_batch_size", "0 means that the model has no batch dimension",
           "'max_batch_size' must be non-negative value for %s", config->name);
  if (config->version_policy == NULL)
    refuse(r, "version_policy", NULL, "must specify 'version policy' for %s", config->name);
  check_scheduling(r);
  check_response_cache(r);
  check_metrics(r);
  if (config->scheduling_choice_case ==
      INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_SEQUENCE_BATCHING)
    rules_sequence_states(r);
}

// ---- entry points ----

static error *first_error(const Inference__ModelConfig *config, config_gpus gpus,
                          const source_map *source, void (*rules_of)(rules *r))
{
  AUTO_DIAGNOSTICS diagnostics found = DIAGNOSTICS_EMPTY;
  rules r = {config, gpus, source, &found, true};
  rules_of(&r);
  return diagnostics_first_error(&found, source != NULL ? source->file_name : NULL);
}

error *config_validate_model(const Inference__ModelConfig *config, const source_map *source)
{
  return first_error(config, CONFIG_NO_GPUS, source, rules_model);
}

static void rules_batch_io(rules *r)
{
  if (r->config->n_input > 0 && r->config->n_batch_input + r->config->n_batch_output > 0)
    rules_tensors(r);
}

error *config_check_batch_io(const Inference__ModelConfig *config, const source_map *source)
{
  return first_error(config, CONFIG_NO_GPUS, source, rules_batch_io);
}

error *config_validate_tensors(const Inference__ModelConfig *config, const source_map *source)
{
  return first_error(config, CONFIG_NO_GPUS, source, rules_tensors);
}

error *config_validate_instance_groups(const Inference__ModelConfig *config, config_gpus gpus,
                                       const source_map *source)
{
  return first_error(config, gpus, source, rules_instance_groups);
}

// Checks padding once the inputs are known.
static void rules_padding(rules *r)
{
  padding_config *padding = NULL;
  const char *parameter = "padding"; // also when memory is short
  if (r->config->n_input == 0)
    return;
  error *e = padding_config_read(r->config, &padding, &parameter);
  if (e != NULL)
    refuse_as(r, error_get_code(e), say("parameters[\"%s\"]", parameter).text, NULL, "%s",
              error_message(e));
  error_free(e);
  padding_config_free(padding);
}

static void rules_objective(rules *r)
{
  uint64_t ns;
  error *e = config_latency_objective(r->config, &ns);
  if (e != NULL)
    refuse_as(r, error_get_code(e), "parameters[\"latency_objective_us\"]", NULL, "%s",
              error_message(e));
  error_free(e);
}

static void rules_all(rules *r)
{
  rules_model(r);
  rules_instance_groups(r);
  rules_tensors(r);
  rules_padding(r);
  rules_objective(r);
}

error *config_validate(const Inference__ModelConfig *config, config_gpus gpus,
                       const source_map *source)
{
  return first_error(config, gpus, source, rules_all);
}

void config_diagnose(const Inference__ModelConfig *config, config_gpus gpus,
                     const source_map *source, diagnostics *found)
{
  rules r = {config, gpus, source, found, false};
  rules_all(&r);
  rules_warmup(&r);
  rules_effects(&r);
}
