// SPDX-License-Identifier: Apache-2.0
// Completes a configuration: defaults, instance groups and the findings of the backend. Called from
// load threads. The values are Triton's, since GET /v2/models/M/config shows them.
#include "base/cleanup.h"
#include "config/config.h"
#include "config/reflection.h"
#include "config/strings.h"

#include <limits.h>

#define SEQUENCE_IDLE_DEFAULT_US 1000000

// Makes a message of `descriptor` in *field if it is NULL.
static bool ensure(void *field, const ProtobufCMessageDescriptor *descriptor)
{
  ProtobufCMessage **message = field;
  if (*message == NULL)
    *message = reflection_new(descriptor);
  return *message != NULL;
}

// ---- policies ----

static error *normalize_version_policy(Inference__ModelConfig *config)
{
  if (config->version_policy != NULL)
    return NULL;
  if (!ensure(&config->version_policy, &inference__model_version_policy__descriptor))
    return error_no_memory();
  Inference__ModelVersionPolicy__Latest *latest = NULL;
  if (!ensure(&latest, &inference__model_version_policy__latest__descriptor))
    return error_no_memory();
  latest->num_versions = 1;
  config->version_policy->policy_choice_case =
      INFERENCE__MODEL_VERSION_POLICY__POLICY_CHOICE_LATEST;
  config->version_policy->latest = latest;
  return NULL;
}

// Without preferred sizes the largest batch is the preferred one.
static error *default_preferred(size_t *count, int32_t **sizes, int32_t max_batch_size)
{
  if (*count != 0 || max_batch_size <= 0)
    return NULL;
  int32_t *size = malloc(sizeof(*size));
  if (size == NULL)
    return error_no_memory();
  *size = max_batch_size;
  free(*sizes);
  *sizes = size;
  *count = 1;
  return NULL;
}

static error *normalize_sequence(Inference__ModelSequenceBatching *sequence, int32_t max_batch_size)
{
  if (sequence->max_sequence_idle_microseconds == 0)
    sequence->max_sequence_idle_microseconds = SEQUENCE_IDLE_DEFAULT_US;
  if (sequence->strategy_choice_case != INFERENCE__MODEL_SEQUENCE_BATCHING__STRATEGY_CHOICE_OLDEST)
    return NULL;
  return default_preferred(&sequence->oldest->n_preferred_batch_size,
                           &sequence->oldest->preferred_batch_size, max_batch_size);
}

static error *normalize_pinned(Inference__ModelOptimizationPolicy__PinnedMemoryBuffer **memory)
{
  if (*memory != NULL)
    return NULL;
  if (!ensure(memory, &inference__model_optimization_policy__pinned_memory_buffer__descriptor))
    return error_no_memory();
  (*memory)->enable = 1;
  return NULL;
}

static error *normalize_scheduling(Inference__ModelConfig *config)
{
  switch (config->scheduling_choice_case) {
  case INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING:
    return default_preferred(&config->dynamic_batching->n_preferred_batch_size,
                             &config->dynamic_batching->preferred_batch_size,
                             config->max_batch_size);
  case INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_SEQUENCE_BATCHING:
    return normalize_sequence(config->sequence_batching, config->max_batch_size);
  default:
    return NULL;
  }
}

error *config_normalize(Inference__ModelConfig *config)
{
  RETURN_IF_ERROR(normalize_version_policy(config));
  RETURN_IF_ERROR(normalize_scheduling(config));
  if (config_is_ensemble(config))
    return NULL; // an ensemble has neither instances nor buffers
  if (!ensure(&config->optimization, &inference__model_optimization_policy__descriptor))
    return error_no_memory();
  RETURN_IF_ERROR(normalize_pinned(&config->optimization->input_pinned_memory));
  return normalize_pinned(&config->optimization->output_pinned_memory);
}

error *config_set_defaults(Inference__ModelConfig *config, const char *model_name,
                           const file_root *model_dir)
{
  if (config->name[0] == '\0')
    RETURN_IF_ERROR(strings_set(&config->name, model_name));
  RETURN_IF_ERROR(config_infer_backend(config, model_name, model_dir));
  return config_normalize(config);
}

// ---- instance groups ----

static error *add_gpu(Inference__ModelInstanceGroup *group, int32_t id)
{
  field_ref field = reflection_field(group->base.descriptor, SLICE("gpus"));
  return reflection_put(&group->base, field, (scalar){.integer = id}) ? NULL : error_no_memory();
}

// Adds the GPUs that a backend prefers; with `usable_only` only usable ones.
static error *add_preferred_gpus(Inference__ModelInstanceGroup *group,
                                 const config_preferred_group *preferred, config_gpus gpus,
                                 bool usable_only)
{
  for (size_t i = 0; i < preferred->gpu_count; i++) {
    if (!usable_only || config_has_gpu(gpus, preferred->gpus[i]))
      RETURN_IF_ERROR(add_gpu(group, preferred->gpus[i]));
  }
  return NULL;
}

static int32_t preferred_count(const config_preferred_group *preferred)
{
  return preferred->count > INT32_MAX ? INT32_MAX : (int32_t)preferred->count;
}

// A model without groups gets one named as the model, by the backend's first preference.
static error *add_implicit_group(Inference__ModelConfig *config,
                                 const config_preferred_group *preferred, size_t preferred_size,
                                 config_gpus gpus)
{
  field_ref field = reflection_field(config->base.descriptor, SLICE("instance_group"));
  Inference__ModelInstanceGroup *group =
      (Inference__ModelInstanceGroup *)reflection_put_message(&config->base, field);
  if (group == NULL)
    return error_no_memory();
  RETURN_IF_ERROR(strings_set(&group->name, config->name));
  for (size_t i = 0; i < preferred_size; i++) {
    const config_preferred_group *p = &preferred[i];
    bool gpu = p->kind == INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_GPU;
    if (gpu && gpus.count == 0)
      continue;
    if (gpu || p->kind == INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_AUTO)
      RETURN_IF_ERROR(add_preferred_gpus(group, p, gpus, gpu));
    group->kind = p->kind;
    group->count = preferred_count(p);
    break;
  }
  return NULL;
}

// KIND_AUTO becomes GPU if all listed GPUs are usable or, with none listed, if there is a GPU and
// the backend does not avoid them.
static void resolve_kind(Inference__ModelInstanceGroup *group, config_gpus gpus)
{
  if (group->kind != INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_AUTO)
    return;
  bool all = gpus.count > 0 && !(gpus.avoided && group->n_gpus == 0);
  for (size_t i = 0; i < group->n_gpus; i++)
    all = all && config_has_gpu(gpus, group->gpus[i]);
  group->kind = all ? INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_GPU
                    : INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_CPU;
}

static error *apply_preferred(Inference__ModelInstanceGroup *group,
                              const config_preferred_group *preferred, config_gpus gpus)
{
  if (group->kind != preferred->kind)
    return NULL;
  if (group->kind == INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_GPU && group->n_gpus == 0 &&
      preferred->gpu_count > 0) {
    RETURN_IF_ERROR(add_preferred_gpus(group, preferred, gpus, true));
    if (group->n_gpus == 0)
      return NULL;
  }
  if (group->count < 1)
    group->count = preferred_count(preferred);
  return NULL;
}

static int32_t default_count(const Inference__ModelInstanceGroup *group, const char *backend)
{
  if (group->kind != INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_CPU)
    return 1;
  int32_t count = backend_traits_of(backend)->cpu_instances;
  return count > 0 ? count : 1;
}

static error *name_group(Inference__ModelInstanceGroup *group, const char *model_name, size_t index)
{
  if (group->name[0] != '\0')
    return NULL;
  AUTO_BUFFER buffer name = BUFFER_EMPTY;
  buffer_append_format(&name, "%s_%zu", model_name, index);
  buffer_append_char(&name, '\0');
  return name.failed ? error_no_memory() : strings_set(&group->name, name.data);
}

error *config_normalize_instance_groups(Inference__ModelConfig *config,
                                        const config_preferred_group *preferred,
                                        size_t preferred_size, config_gpus gpus)
{
  if (config_is_ensemble(config))
    return NULL;
  if (config->n_instance_group == 0)
    RETURN_IF_ERROR(add_implicit_group(config, preferred, preferred_size, gpus));
  for (size_t i = 0; i < config->n_instance_group; i++) {
    Inference__ModelInstanceGroup *group = config->instance_group[i];
    RETURN_IF_ERROR(name_group(group, config->name, i));
    resolve_kind(group, gpus);
    for (size_t j = 0; j < preferred_size; j++)
      RETURN_IF_ERROR(apply_preferred(group, &preferred[j], gpus));
    if (group->count < 1)
      group->count = default_count(group, config->backend);
    if (group->kind != INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_GPU || group->n_gpus > 0)
      continue;
    for (size_t j = 0; j < gpus.count; j++)
      RETURN_IF_ERROR(add_gpu(group, gpus.ids[j]));
  }
  return NULL;
}

// ---- what the backend found ----

// `found` is a copy that is discarded afterwards, so its parts move into `base`.
static void take_tensors(Inference__ModelConfig *base, Inference__ModelConfig *found)
{
  size_t n_input = base->n_input;
  Inference__ModelInput **input = base->input;
  base->n_input = found->n_input;
  base->input = found->input;
  found->n_input = n_input;
  found->input = input;

  size_t n_output = base->n_output;
  Inference__ModelOutput **output = base->output;
  base->n_output = found->n_output;
  base->output = found->output;
  found->n_output = n_output;
  found->output = output;
}

static error *take_scheduling(Inference__ModelConfig *base, Inference__ModelConfig *found)
{
  if (base->scheduling_choice_case == found->scheduling_choice_case)
    return NULL; // the configured one stays
  if (base->scheduling_choice_case != INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE__NOT_SET)
    return error_new(ERROR_INTERNAL,
                     "Cannot update scheduling choice from %d to %d when auto-completing.",
                     (int)base->scheduling_choice_case, (int)found->scheduling_choice_case);
  base->scheduling_choice_case = found->scheduling_choice_case;
  base->dynamic_batching = found->dynamic_batching; // the union's pointer, whichever it is
  found->scheduling_choice_case = INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE__NOT_SET;
  found->dynamic_batching = NULL;
  return NULL;
}

error *config_apply_autocomplete(Inference__ModelConfig *base,
                                 const Inference__ModelConfig *from_backend)
{
  AUTO_CONFIG Inference__ModelConfig *found = NULL;
  RETURN_IF_ERROR(config_copy(from_backend, &found));
  RETURN_IF_ERROR(take_scheduling(base, found));
  base->max_batch_size = found->max_batch_size;
  take_tensors(base, found);
  if (found->model_transaction_policy != NULL) {
    if (!ensure(&base->model_transaction_policy, &inference__model_transaction_policy__descriptor))
      return error_no_memory();
    base->model_transaction_policy->decoupled = found->model_transaction_policy->decoupled;
  }
  return config_normalize(base);
}

// ---- backends that another one runs ----

static error *add_parameter(Inference__ModelConfig *config, const char *key, const char *value)
{
  field_ref parameters =
      reflection_field(&inference__model_config__descriptor, slice_of("parameters"));
  Inference__ModelConfig__ParametersEntry *entry =
      (void *)reflection_put_message(&config->base, parameters);
  if (entry == NULL || !ensure(&entry->value, &inference__model_parameter__descriptor))
    return error_no_memory();
  RETURN_IF_ERROR(strings_set(&entry->key, key));
  return strings_set(&entry->value->string_value, value);
}

error *config_set_runner(Inference__ModelConfig *config, const backend_traits *runner,
                         const char *environment)
{
  const char *key = runner->environment_parameter;
  RETURN_IF_ERROR(strings_set(&config->runtime, runner->runtime));
  if (environment == NULL || config_parameter(config, key) != NULL)
    return NULL;
  return add_parameter(config, key, environment);
}
