// The rules that a configuration must keep. Called from load threads. Texts are Triton's, because
// tools and tests look for them; rules of our own say what was expected.
#include "base/checked.h"
#include "base/log.h"
#include "base/string_map.h"
#include "config/config.h"

#include <inttypes.h>

enum {
  MAX_GROUP_INSTANCES = 4096, // of one group: each is a thread, so a slip of the hand must not pass
};

#define PLATFORM_TENSORRT "tensorrt_plan"
#define PLATFORM_ENSEMBLE "ensemble"

static bool is(const char *text, const char *other)
{
  return strcmp(text, other) == 0;
}

#define REFUSE(...) return error_new(ERROR_INVALID_ARG, __VA_ARGS__)

// ---- platform and backend ----

static error *check_platform(const Inference__ModelConfig *config)
{
  bool ensemble = is(config->platform, PLATFORM_ENSEMBLE);
  if (is(config->backend, "")) {
    if (ensemble)
      return NULL;
    REFUSE("unexpected platform type '%s' for %s", config->platform, config->name);
  }
  if (ensemble)
    REFUSE("Ensemble model '%s' must have platform type '%s' and empty backend type", config->name,
           config->platform);
  bool any = true; // where the backend has none of its own
  for (const backend_format *f = backend_traits_of(config->backend)->formats; f->file != NULL;
       f++) {
    if (f->platform != NULL && is(config->platform, f->platform))
      return NULL;
    any = any && f->platform == NULL;
  }
  if (!any)
    REFUSE("unexpected 'platform' and 'backend' pair, got:%s, %s", config->platform,
           config->backend);
  return NULL;
}

error *config_check_name(const Inference__ModelConfig *config, const char *model_name)
{
  if (is(config->name, model_name))
    return NULL;
  REFUSE("unexpected directory name '%s' for model '%s', directory name must equal model name",
         model_name, config->name);
}

// ---- dynamic batching ----

static error *check_preferred(const Inference__ModelConfig *config)
{
  const Inference__ModelDynamicBatching *batching = config->dynamic_batching;
  for (size_t i = 0; i < batching->n_preferred_batch_size; i++) {
    int32_t size = batching->preferred_batch_size[i];
    if (size <= 0)
      REFUSE("dynamic batching preferred size must be positive for %s", config->name);
    if (size > config->max_batch_size)
      REFUSE("dynamic batching preferred size must be <= max batch size for %s", config->name);
  }
  return NULL;
}

static error *check_priorities(const Inference__ModelConfig *config)
{
  const Inference__ModelDynamicBatching *batching = config->dynamic_batching;
  uint64_t levels = batching->priority_levels;
  if (levels == 0)
    return NULL;
  if (batching->default_priority_level == 0 || batching->default_priority_level > levels)
    REFUSE("default priority level must be in range [1, %" PRIu64 "] for %s", levels, config->name);
  for (size_t i = 0; i < batching->n_priority_queue_policy; i++) {
    uint64_t level = batching->priority_queue_policy[i]->key;
    if (level == 0 || level > levels)
      REFUSE("priority queue policy must have priority level in range [1, %" PRIu64 "] for %s",
             levels, config->name);
  }
  return NULL;
}

static bool delays(const Inference__ModelQueuePolicy *policy)
{
  return policy != NULL && policy->default_timeout_microseconds != 0 &&
         policy->timeout_action == INFERENCE__MODEL_QUEUE_POLICY__TIMEOUT_ACTION__DELAY;
}

// A request that is overtaken cannot be answered in its turn.
static error *check_ordering(const Inference__ModelConfig *config)
{
  const Inference__ModelDynamicBatching *batching = config->dynamic_batching;
  if (!batching->preserve_ordering)
    return NULL;
  if (batching->priority_levels > 1)
    REFUSE("Only one priority level is allowed when 'preserve_ordering' is true for %s",
           config->name);
  bool delayed = delays(batching->default_queue_policy);
  for (size_t i = 0; i < batching->n_priority_queue_policy; i++)
    delayed = delayed || delays(batching->priority_queue_policy[i]->value);
  if (delayed)
    REFUSE("Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true "
           "for %s",
           config->name);
  return NULL;
}

static error *check_scheduling(const Inference__ModelConfig *config)
{
  switch (config->scheduling_choice_case) {
  case INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING:
    RETURN_IF_ERROR(check_preferred(config));
    RETURN_IF_ERROR(check_priorities(config));
    return check_ordering(config);
  case INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_ENSEMBLE_SCHEDULING:
    if (!is(config->platform, PLATFORM_ENSEMBLE))
      REFUSE("ensemble scheduling cannot be set for model '%s' whose platform is not ensemble",
             config->name);
    return NULL;
  default:
    if (is(config->platform, PLATFORM_ENSEMBLE))
      REFUSE("ensemble scheduling must be set for ensemble %s whose platform is ensemble",
             config->name);
    return NULL;
  }
}

// ---- the rest of the model ----

static error *check_metrics(const Inference__ModelConfig *config)
{
  const Inference__ModelMetrics *metrics = config->model_metrics;
  for (size_t i = 0; metrics != NULL && i < metrics->n_metric_control; i++) {
    const Inference__ModelMetrics__MetricControl *control = metrics->metric_control[i];
    if (control->metric_identifier == NULL)
      REFUSE("metric control must specify 'metric_identifier'");
    if (is(control->metric_identifier->family, ""))
      REFUSE("metric identifier must specify non-empty 'family'");
    if (control->metric_options_case !=
        INFERENCE__MODEL_METRICS__METRIC_CONTROL__METRIC_OPTIONS_HISTOGRAM_OPTIONS)
      REFUSE("metric control must specify 'histogram_options'");
    if (control->histogram_options->n_buckets == 0)
      REFUSE("histogram options must specify non-empty 'buckets'");
  }
  return NULL;
}

static error *check_response_cache(const Inference__ModelConfig *config)
{
  if (config->response_cache == NULL || !config->response_cache->enable)
    return NULL;
  if (config->scheduling_choice_case ==
      INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_SEQUENCE_BATCHING)
    REFUSE("Response Cache does not currently support model %s with sequence batching scheduler. "
           "Please disable the response cache.",
           config->name);
  if (config_is_decoupled(config))
    REFUSE("Response Cache does not currently support model %s with 'decoupled' transaction "
           "policy. Please disable the response cache.",
           config->name);
  return NULL;
}

static bool has_ragged_input(const Inference__ModelConfig *config)
{
  for (size_t i = 0; i < config->n_input; i++) {
    if (config->input[i]->allow_ragged_batch)
      return true;
  }
  return false;
}

// What nereid cannot do yet and without which answers would be other than the configuration
// promises.
static error *check_supported(const Inference__ModelConfig *config)
{
  const struct {
    const char *field;
    bool wanted;
  } missing[] = {
      {"sequence_batching", config->scheduling_choice_case ==
                                INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_SEQUENCE_BATCHING},
      {"ensemble_scheduling", config->scheduling_choice_case ==
                                  INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_ENSEMBLE_SCHEDULING},
      {"batch_input", config->n_batch_input > 0},
      {"batch_output", config->n_batch_output > 0},
      {"allow_ragged_batch", has_ragged_input(config)},
      {"TRITON_BATCH_STRATEGY_PATH",
       config_parameter(config, "TRITON_BATCH_STRATEGY_PATH") != NULL},
      {"model_repository_agents",
       config->model_repository_agents != NULL && config->model_repository_agents->n_agents > 0},
  };
  for (size_t i = 0; i < sizeof(missing) / sizeof(missing[0]); i++) {
    if (missing[i].wanted)
      return error_new(ERROR_UNSUPPORTED, "'%s' of model '%s' is not supported by nereid yet",
                       missing[i].field, config->name);
  }
  return NULL;
}

void config_warn_of_missing(const Inference__ModelConfig *config)
{
  if (config->response_cache != NULL && config->response_cache->enable)
    log_warning("model '%s': 'response_cache' has no effect in nereid yet: each answer is computed",
                config->name);
  if (config->n_model_warmup > 0)
    log_warning("model '%s': 'model_warmup' has no effect in nereid yet: its first requests may "
                "take longer",
                config->name);
}

error *config_validate_model(const Inference__ModelConfig *config)
{
  if (is(config->name, ""))
    REFUSE("model configuration must specify 'name'");
  RETURN_IF_ERROR(check_platform(config));
  if (config->max_batch_size < 0)
    REFUSE("'max_batch_size' must be non-negative value for %s", config->name);
  if (config->version_policy == NULL)
    REFUSE("must specify 'version policy' for %s", config->name);
  RETURN_IF_ERROR(check_scheduling(config));
  RETURN_IF_ERROR(check_response_cache(config));
  RETURN_IF_ERROR(check_metrics(config));
  return check_supported(config);
}

// ---- tensors ----

// What the rules need to know of an input or output.
typedef struct tensor_rule {
  const char *kind; // "input" or "output"
  const char *name;
  int data_type;
  const int64_t *dims;
  size_t dim_count;
  const Inference__ModelTensorReshape *reshape; // or NULL
  bool is_shape_tensor;
  bool is_non_linear_format;
} tensor_rule;

#define REFUSE_TENSOR(t, text, ...)                                                                \
  REFUSE("model %s '%s' " text, (t)->kind, (t)->name __VA_OPT__(, ) __VA_ARGS__)

static bool all_positive_or_variable(const int64_t *dims, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    if (dims[i] < 1 && dims[i] != -1)
      return false;
  }
  return true;
}

static error *count_elements(const tensor_rule *t, const char *what, const int64_t *dims,
                             size_t count, int64_t *elements)
{
  if (!config_element_count(dims, count, elements))
    REFUSE("element count for tensor '%s %s' exceeds maximum size of %" PRId64, t->name, what,
           INT64_MAX);
  return NULL;
}

// Product of the dimensions up to the next -1 or the end; *at moves behind it. It fits: all of them
// together have been counted.
static int64_t chunk_elements(const int64_t *dims, size_t count, size_t *at)
{
  const size_t start = *at;
  while (*at < count && dims[*at] != -1)
    ++*at;
  int64_t product = -1;
  config_element_count(dims + start, *at - start, &product);
  ++*at;
  return product;
}

static size_t count_variable(const int64_t *dims, size_t count)
{
  size_t variable = 0;
  for (size_t i = 0; i < count; i++)
    variable += dims[i] == -1;
  return variable;
}

// The fixed stretches between variable dimensions must agree: [2,4,-1,6] may become [8,-1,1,6].
static error *check_variable_reshape(const tensor_rule *t)
{
  size_t stretches = count_variable(t->dims, t->dim_count) + 1;
  if (stretches != count_variable(t->reshape->shape, t->reshape->n_shape) + 1)
    REFUSE_TENSOR(t, "has different number of variable-size dimensions for dims and reshape");
  size_t at_dim = 0;
  size_t at_shape = 0;
  for (size_t i = 0; i < stretches; i++) {
    if (chunk_elements(t->dims, t->dim_count, &at_dim) !=
        chunk_elements(t->reshape->shape, t->reshape->n_shape, &at_shape))
      REFUSE_TENSOR(t, "has different size for dims and reshape");
  }
  return NULL;
}

static error *check_reshape(const tensor_rule *t, int64_t elements)
{
  if (!all_positive_or_variable(t->reshape->shape, t->reshape->n_shape))
    REFUSE_TENSOR(t, "reshape dimensions must be integer >= 1, or -1 to indicate a variable-size "
                     "dimension");
  int64_t reshaped;
  RETURN_IF_ERROR(count_elements(t, "reshape", t->reshape->shape, t->reshape->n_shape, &reshaped));
  if (elements != reshaped) // of an empty shape it is 1: a scalar
    REFUSE_TENSOR(t, "has different size for dims and reshape");
  return elements == -1 ? check_variable_reshape(t) : NULL;
}

static error *check_dims(const tensor_rule *t, int32_t max_batch_size)
{
  if (t->dim_count == 0)
    REFUSE_TENSOR(t, "must specify 'dims'");
  if (t->reshape != NULL && t->reshape->n_shape == 0 && max_batch_size == 0)
    REFUSE_TENSOR(t, "cannot have empty reshape for non-batching model as scalar tensors are not "
                     "supported");
  if (!all_positive_or_variable(t->dims, t->dim_count))
    REFUSE_TENSOR(t, "dimension must be integer >= 1, or -1 to indicate a variable-size dimension");
  int64_t elements;
  RETURN_IF_ERROR(count_elements(t, "dims", t->dims, t->dim_count, &elements));
  return t->reshape != NULL ? check_reshape(t, elements) : NULL;
}

static error *check_tensor(const tensor_rule *t, const Inference__ModelConfig *config)
{
  if (is(t->name, ""))
    REFUSE("model %s must specify 'name'", t->kind);
  if (datatype_by_value(t->data_type) == NULL)
    REFUSE_TENSOR(t, "must specify 'data_type'");
  RETURN_IF_ERROR(check_dims(t, config->max_batch_size));
  if (is(config->platform, PLATFORM_TENSORRT)) {
    if (t->is_non_linear_format && t->dim_count != 3)
      REFUSE("Non-linear IO format %s requires 3 dims", t->kind);
    return NULL;
  }
  if (t->is_shape_tensor)
    REFUSE("shape tensors are only supported for TensorRT platform");
  if (t->is_non_linear_format)
    REFUSE("Non-linear IO format is only supported for the TensorRT platform");
  return NULL;
}

// Puts a name into `seen`, which holds those before it. A request could reach only one of two
// tensors with the same name.
static error *check_unique(string_map *seen, const char *kind, const char *name)
{
  if (string_map_get(seen, slice_of(name)) != NULL)
    REFUSE("model %s '%s' is specified more than once", kind, name);
  return string_map_put(seen, slice_of(name), seen) ? NULL : error_no_memory();
}

static error *check_input(const Inference__ModelConfig *config, const Inference__ModelInput *input,
                          string_map *seen)
{
  tensor_rule t = {
      "input",       input->name,    (int)input->data_type,  input->dims,
      input->n_dims, input->reshape, input->is_shape_tensor, input->is_non_linear_format_io};
  RETURN_IF_ERROR(check_tensor(&t, config));
  if (input->format != INFERENCE__MODEL_INPUT__FORMAT__FORMAT_NONE && input->n_dims != 3)
    REFUSE("model input NHWC/NCHW require 3 dims");
  return check_unique(seen, "input", input->name);
}

static error *check_output(const Inference__ModelConfig *config,
                           const Inference__ModelOutput *output, string_map *seen)
{
  tensor_rule t = {
      "output",       output->name,    (int)output->data_type,  output->dims,
      output->n_dims, output->reshape, output->is_shape_tensor, output->is_non_linear_format_io};
  RETURN_IF_ERROR(check_tensor(&t, config));
  return check_unique(seen, "output", output->name);
}

error *config_validate_tensors(const Inference__ModelConfig *config)
{
  error *e = NULL;
  string_map inputs = {0}, outputs = {0};
  for (size_t i = 0; e == NULL && i < config->n_input; i++)
    e = check_input(config, config->input[i], &inputs);
  for (size_t i = 0; e == NULL && i < config->n_output; i++)
    e = check_output(config, config->output[i], &outputs);
  string_map_fini(&inputs);
  string_map_fini(&outputs);
  if (e == NULL)
    return NULL;
  // Triton puts the model behind: "… for <model>".
  error *whole = error_new(error_get_code(e), "%s for %s", error_message(e), config->name);
  error_free(e);
  return whole;
}

// ---- instance groups ----

#define REFUSE_GROUP(config, group, text, ...)                                                     \
  REFUSE("instance group %s of model %s " text, (group)->name,                                     \
         (config)->name __VA_OPT__(, ) __VA_ARGS__)

static error *check_gpus(const Inference__ModelConfig *config,
                         const Inference__ModelInstanceGroup *group, config_gpus gpus)
{
  if (group->n_gpus == 0 && gpus.count == 0)
    REFUSE_GROUP(config, group, "has kind KIND_GPU but no GPUs are available");
  if (group->n_gpus == 0)
    REFUSE_GROUP(config, group, "has kind KIND_GPU but specifies no GPUs");
  for (size_t i = 0; i < group->n_gpus; i++) {
    if (!config_has_gpu(gpus, group->gpus[i]))
      REFUSE_GROUP(config, group,
                   "specifies invalid or unsupported gpu id %" PRId32
                   ". GPUs with at least the minimum required CUDA compute compatibility: %zu",
                   group->gpus[i], gpus.count);
  }
  return NULL;
}

static error *check_kind(const Inference__ModelConfig *config,
                         const Inference__ModelInstanceGroup *group, config_gpus gpus)
{
  switch (group->kind) {
  case INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_GPU:
    return check_gpus(config, group, gpus);
  case INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_CPU:
  case INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_MODEL:
    if (group->n_gpus > 0)
      REFUSE_GROUP(config, group, "has kind %s but specifies one or more GPUs",
                   config_kind_name(group->kind));
    return NULL;
  default:
    return error_new(ERROR_INTERNAL, "instance group %s of model %s has unexpected kind KIND_AUTO",
                     group->name, config->name);
  }
}

static error *check_group(const Inference__ModelConfig *config,
                          const Inference__ModelInstanceGroup *group, config_gpus gpus)
{
  RETURN_IF_ERROR(check_kind(config, group, gpus));
  if (group->n_profile > 0 && !is(config->platform, PLATFORM_TENSORRT))
    REFUSE_GROUP(config, group,
                 "and platform %s specifies profile field which is only supported for TensorRT "
                 "models",
                 config->platform);
  if (config_group_instances(group) > MAX_GROUP_INSTANCES)
    REFUSE_GROUP(config, group, "makes %zu instances, expected at most %d",
                 config_group_instances(group), MAX_GROUP_INSTANCES);
  return NULL;
}

error *config_validate_instance_groups(const Inference__ModelConfig *config, config_gpus gpus)
{
  if (config->scheduling_choice_case ==
      INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_ENSEMBLE_SCHEDULING)
    return NULL;
  if (config->n_instance_group == 0)
    REFUSE("must specify one or more 'instance group's for %s", config->name);
  for (size_t i = 0; i < config->n_instance_group; i++)
    RETURN_IF_ERROR(check_group(config, config->instance_group[i], gpus));
  return NULL;
}

error *config_validate(const Inference__ModelConfig *config, config_gpus gpus)
{
  RETURN_IF_ERROR(config_validate_model(config));
  RETURN_IF_ERROR(config_validate_instance_groups(config, gpus));
  return config_validate_tensors(config);
}
