// SPDX-License-Identifier: Apache-2.0
// Lifetime of configurations and questions about them. Called from load threads.
#include "config/config.h"

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"
#include "config/reflection.h"
#include "config/strings.h"

#include <math.h>
#include <stdlib.h>

// ---- lifetime ----

Inference__ModelConfig *config_new(void)
{
  return (Inference__ModelConfig *)reflection_new(&inference__model_config__descriptor);
}

void config_free(Inference__ModelConfig *config_owned)
{
  if (config_owned != NULL)
    inference__model_config__free_unpacked(config_owned, NULL);
}

error *config_copy(const Inference__ModelConfig *config, Inference__ModelConfig **copy)
{
  size_t size = inference__model_config__get_packed_size(config);
  uint8_t *packed AUTO_FREE = malloc(size + 1);
  if (packed == NULL)
    return error_no_memory();
  inference__model_config__pack(config, packed);
  *copy = inference__model_config__unpack(NULL, size, packed);
  return *copy != NULL ? NULL : error_no_memory();
}

static void cut_off_policy(Inference__ModelConfig *config)
{
  if (config->version_policy != NULL)
    inference__model_version_policy__free_unpacked(config->version_policy, NULL);
  config->version_policy = NULL;
}

static void cut_off_groups(Inference__ModelConfig *config)
{
  while (config->n_instance_group > 0)
    inference__model_instance_group__free_unpacked(
        config->instance_group[--config->n_instance_group], NULL);
}

// The packed bytes of a configuration without the fields to be ignored.
static error *pack_for_comparison(const Inference__ModelConfig *config, bool with_groups,
                                  buffer *out)
{
  AUTO_CONFIG Inference__ModelConfig *rest = NULL;
  RETURN_IF_ERROR(config_copy(config, &rest));
  cut_off_policy(rest);
  if (!with_groups)
    cut_off_groups(rest);
  size_t size = inference__model_config__get_packed_size(rest);
  char *at = buffer_reserve(out, size + 1); // never 0 bytes: that would give NULL
  if (at == NULL)
    return error_no_memory();
  out->size += inference__model_config__pack(rest, (uint8_t *)at);
  return NULL;
}

static bool are_equal(const Inference__ModelConfig *a, const Inference__ModelConfig *b,
                      bool with_groups)
{
  AUTO_BUFFER buffer first = BUFFER_EMPTY;
  AUTO_BUFFER buffer second = BUFFER_EMPTY;
  AUTO_ERROR error *e = pack_for_comparison(a, with_groups, &first);
  if (e == NULL)
    e = pack_for_comparison(b, with_groups, &second);
  return e == NULL && slice_equal(buffer_view(&first), buffer_view(&second));
}

bool config_equal_but_policy(const Inference__ModelConfig *a, const Inference__ModelConfig *b)
{
  return are_equal(a, b, true);
}

bool config_equal_but_groups(const Inference__ModelConfig *a, const Inference__ModelConfig *b)
{
  return are_equal(a, b, false);
}

static error *pack_group(const Inference__ModelInstanceGroup *group, buffer *out)
{
  Inference__ModelInstanceGroup nameless = *group; // shallow copy; the rest is only read
  nameless.name = (char *)protobuf_c_empty_string;
  nameless.count = 1;
  size_t size = inference__model_instance_group__get_packed_size(&nameless);
  char *at = buffer_reserve(out, size + 1);
  if (at == NULL)
    return error_no_memory();
  out->size += inference__model_instance_group__pack(&nameless, (uint8_t *)at);
  return NULL;
}

error *config_groups_alike(const Inference__ModelInstanceGroup *a,
                           const Inference__ModelInstanceGroup *b, bool *alike)
{
  AUTO_BUFFER buffer first = BUFFER_EMPTY;
  AUTO_BUFFER buffer second = BUFFER_EMPTY;
  RETURN_IF_ERROR(pack_group(a, &first));
  RETURN_IF_ERROR(pack_group(b, &second));
  *alike = slice_equal(buffer_view(&first), buffer_view(&second));
  return NULL;
}

// ---- versions ----

static int compare_versions(const void *a, const void *b)
{
  int64_t first = *(const int64_t *)a;
  int64_t second = *(const int64_t *)b;
  return (first > second) - (first < second);
}

static bool contains(const int64_t *versions, size_t count, int64_t version)
{
  for (size_t i = 0; i < count; i++) {
    if (versions[i] == version)
      return true;
  }
  return false;
}

static size_t select_specific(const Inference__ModelConfig *config, const int64_t *available,
                              size_t available_count, int64_t *selected)
{
  const Inference__ModelVersionPolicy__Specific *specific = config->version_policy->specific;
  size_t count = 0;
  for (size_t i = 0; i < specific->n_versions; i++) {
    int64_t version = specific->versions[i];
    if (!contains(available, available_count, version))
      log_error(
          "version %lld is specified for model '%s', but the version directory is not present",
          (long long)version, config->name);
    else if (!contains(selected, count, version))
      selected[count++] = version;
  }
  if (count > 0)
    qsort(selected, count, sizeof(*selected), compare_versions);
  return count;
}

// Keeps the largest `limit` of `count` ascending versions.
static size_t keep_latest(int64_t *versions, size_t count, size_t limit)
{
  if (count <= limit)
    return count;
  memmove(versions, versions + (count - limit), limit * sizeof(*versions));
  return limit;
}

void config_select_versions(const Inference__ModelConfig *config, const int64_t *available,
                            size_t available_count, int64_t *selected, size_t *selected_count)
{
  const Inference__ModelVersionPolicy *policy = config->version_policy;
  *selected_count = 0;
  if (available_count == 0 &&
      (policy == NULL ||
       policy->policy_choice_case != INFERENCE__MODEL_VERSION_POLICY__POLICY_CHOICE_SPECIFIC))
    return;
  if (policy != NULL &&
      policy->policy_choice_case == INFERENCE__MODEL_VERSION_POLICY__POLICY_CHOICE_SPECIFIC) {
    *selected_count = select_specific(config, available, available_count, selected);
    return;
  }
  memcpy(selected, available, available_count * sizeof(*selected));
  qsort(selected, available_count, sizeof(*selected), compare_versions);
  size_t limit = available_count; // for "all", and for a policy without a choice
  if (policy == NULL)
    limit = 1;
  else if (policy->policy_choice_case == INFERENCE__MODEL_VERSION_POLICY__POLICY_CHOICE_LATEST)
    limit = policy->latest->num_versions;
  *selected_count = keep_latest(selected, available_count, limit);
}

// ---- questions ----

const char *config_parameter(const Inference__ModelConfig *config, const char *key)
{
  for (size_t i = 0; i < config->n_parameters; i++) {
    const Inference__ModelConfig__ParametersEntry *entry = config->parameters[i];
    if (strcmp(entry->key, key) == 0)
      return entry->value != NULL ? entry->value->string_value : "";
  }
  return NULL;
}

bool config_is_decoupled(const Inference__ModelConfig *config)
{
  return config->model_transaction_policy != NULL && config->model_transaction_policy->decoupled;
}

bool config_has_gpu(config_gpus gpus, int32_t id)
{
  for (size_t i = 0; i < gpus.count; i++)
    if (gpus.ids[i] == id)
      return true;
  return false;
}

size_t config_group_instances(const Inference__ModelInstanceGroup *group)
{
  size_t count = group->count < 1 ? 0 : (size_t)group->count;
  return group->kind == INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_GPU ? count * group->n_gpus
                                                                        : count;
}

size_t config_instances(const Inference__ModelConfig *config)
{
  size_t count = 0;
  for (size_t i = 0; i < config->n_instance_group; i++)
    count += config_group_instances(config->instance_group[i]);
  return count;
}

const char *config_kind_name(Inference__ModelInstanceGroup__Kind kind)
{
  const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value(
      &inference__model_instance_group__kind__descriptor, (int)kind);
  return value != NULL ? value->name : "KIND_AUTO";
}

bool config_element_count(const int64_t *dims, size_t count, int64_t *elements)
{
  int64_t product = 1;
  bool variable = false;
  for (size_t i = 0; i < count; i++) {
    if (dims[i] < -1)
      return false;
    if (dims[i] == -1)
      variable = true;
    else if (!checked_multiply_int64(product, dims[i], &product))
      return false;
  }
  *elements = variable ? -1 : product;
  return true;
}

static bool ascend(const double *bounds, size_t count)
{
  for (size_t i = 0; i < count; i++)
    if (!isfinite(bounds[i]) || (i > 0 && bounds[i - 1] >= bounds[i]))
      return false;
  return true;
}

const char *config_metric_in_vain(const Inference__ModelMetrics__MetricControl *control)
{
  const Inference__ModelMetrics__MetricControl__HistogramOptions *options =
      control->histogram_options;
  if (strcmp(control->metric_identifier->family, CONFIG_METRIC_FAMILY) != 0)
    return "is not a customizable metric in Triton core, expected " CONFIG_METRIC_FAMILY;
  return ascend(options->buckets, options->n_buckets)
             ? NULL
             : "has no effect: Bucket Boundaries must be strictly sorted, and finite";
}

error *config_rename(Inference__ModelConfig *config, const char *name)
{
  return strings_set(&config->name, name);
}

bool config_is_ensemble(const Inference__ModelConfig *config)
{
  return config->scheduling_choice_case ==
         INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_ENSEMBLE_SCHEDULING;
}

error *config_place_step(Inference__ModelEnsembling__Step *step, const char *model_namespace)
{
  return strings_set(&step->model_namespace, model_namespace);
}

error *config_set_decoupled(Inference__ModelConfig *config, bool decoupled)
{
  if (config->model_transaction_policy == NULL) {
    config->model_transaction_policy = malloc(sizeof(*config->model_transaction_policy));
    if (config->model_transaction_policy == NULL)
      return error_no_memory();
    inference__model_transaction_policy__init(config->model_transaction_policy);
  }
  config->model_transaction_policy->decoupled = decoupled;
  return NULL;
}

error *config_latency_objective(const Inference__ModelConfig *config, uint64_t *ns)
{
  uint64_t us;
  const char *text = config_parameter(config, "latency_objective_us");
  *ns = 0;
  if (text == NULL)
    return NULL;
  if (!text_to_uint64(slice_of(text), &us) || us == 0 ||
      __builtin_mul_overflow(us, UINT64_C(1000), ns))
    return error_new(ERROR_INVALID_ARG,
                     "model '%s': parameter latency_objective_us: invalid value '%s', expected a "
                     "number of microseconds above 0, at most 18446744073709551",
                     config->name, text);
  if (config->scheduling_choice_case != INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING)
    return error_new(ERROR_INVALID_ARG,
                     "model '%s': parameter latency_objective_us needs 'dynamic_batching': it is "
                     "batches that it chooses",
                     config->name);
  return NULL;
}
