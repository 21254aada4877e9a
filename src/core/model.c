// Loading and ending of a model version. Loading runs on a load thread, ending on the server's
// reaper.
#include "core/model.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/state.h"
#include "core/backend_search.h"
#include "core/labels.h"
#include "core/model_measures.h"
#include "core/refuse.h"
#include "core/server_options.h"

#include <stdlib.h>
#include <string.h>

static void set_stage(model *m, model_stage to)
{
  static const unsigned allowed[] = {
      [MODEL_MADE] = STATE_BIT(MODEL_COMPLETING) | STATE_BIT(MODEL_INITIALIZED),
      [MODEL_COMPLETING] = STATE_BIT(MODEL_MADE) | STATE_BIT(MODEL_INITIALIZED),
      [MODEL_INITIALIZED] = STATE_BIT(MODEL_STARTED),
      [MODEL_STARTED] = STATE_BIT(MODEL_STARTED), // two callers wanted it
  };
  state_assert(allowed, atomic_load_explicit(&m->stage, memory_order_relaxed), to);
  atomic_store_explicit(&m->stage, to, memory_order_release);
}

static void target_unreferenced(request_target *target)
{
  model *m = model_of_target(target);
  m->environment.unreferenced(m->environment.server, m);
}

static error *make_model(const model_environment *environment, model_source *source, model **result)
{
  model *m = calloc(1, sizeof(*m));
  if (m == NULL)
    return error_no_memory();
  *result = m;
  m->environment = *environment;
  cancelled_requests_init(&m->cancelled, environment->timekeeper);
  m->config = source->config_owned;
  source->config_owned = NULL;
  m->upload = upload_ref(source->upload);
  m->links = source->links;
  m->name = strdup(source->name);
  m->repository = strdup(source->repository);
  m->dir = strdup(source->dir);
  if (m->name == NULL || m->repository == NULL || m->dir == NULL)
    return error_no_memory();
  m->target.name = m->name;
  m->target.version = source->version;
  m->target.unreferenced = target_unreferenced;
  refcount_init(&m->target.references);
  m->shared.model = m;
  m->shared.target = &m->target;
  m->shared.host_policies = &environment->options->host_policies;
  atomic_init(&m->shared.typical_ns, INSTANCE_SLOW_NS);
  pthread_mutex_init(&m->start_lock, NULL);
  response_statistics_init(&m->target.response_statistics);
  return NULL;
}

// What a backend starts for a whole model, such as threads that compute, is where the instances are
// to be, if they are to be in one place.
static error *initialize_in_place(model *m)
{
  host_placement placement;
  host_place before;
  RETURN_IF_ERROR(instance_common_placement(m->shared.host_policies, m->config, &placement));
  RETURN_IF_ERROR(host_placement_enter(&placement, &before));
  set_stage(m, MODEL_COMPLETING);
  error *e = (error *)m->shared.backend->functions.model_initialize(m);
  set_stage(m, e == NULL ? MODEL_INITIALIZED : MODEL_MADE);
  host_placement_leave(&placement, &before);
  return e;
}

static error *open_dir(const model *m, file_root *dir)
{
  AUTO_ROOT file_root root = FILE_ROOT_CLOSED;
  RETURN_IF_ERROR(files_open_root(m->repository, m->links, &root));
  return files_open_dir(&root, m->name, dir);
}

error *model_open(const model *m, const char *path, bool is_dir, int *descriptor)
{
  AUTO_ROOT file_root dir = FILE_ROOT_CLOSED;
  RETURN_IF_ERROR(open_dir(m, &dir));
  return files_open(&dir, path, is_dir ? FILE_FOLDER : FILE_REGULAR, descriptor);
}

static error *read_labels(model *m)
{
  AUTO_ROOT file_root dir = FILE_ROOT_CLOSED;
  if (!labels_are_named(m->config))
    return NULL;
  RETURN_IF_ERROR(open_dir(m, &dir));
  return labels_read(m->config, &dir, &m->target.signature);
}

// Lets the backend look at the model and complete its configuration, then makes the configuration
// final.
static error *initialize_model(model *m)
{
  const config_gpus no_gpus = {NULL, 0};
  const backend_attribute *prefers = &m->shared.backend->attribute;
  RETURN_IF_ERROR(
      config_normalize_instance_groups(m->config, prefers->groups, prefers->group_count, no_gpus));
  RETURN_IF_ERROR(config_validate_instance_groups(m->config, no_gpus));
  if (m->shared.backend->functions.model_initialize != NULL)
    RETURN_IF_ERROR(initialize_in_place(m));
  else
    set_stage(m, MODEL_INITIALIZED);
  RETURN_IF_ERROR(config_validate(m->config, no_gpus));
  m->shared.max_batch_size = (uint32_t)m->config->max_batch_size;
  return NULL;
}

// The model's parameter counts before the server's setting.
static error *read_strict_outputs(model *m)
{
  const char *value = config_parameter(m->config, "strict_outputs");
  if (value == NULL)
    value = setting_list_get(&m->environment.options->backend_settings, "", "strict-outputs");
  bool strict = value != NULL && strcmp(value, "true") == 0;
  if (value != NULL && !strict && strcmp(value, "false") != 0)
    return error_new(ERROR_INVALID_ARG,
                     "model '%s': strict_outputs: invalid value '%s', expected true or false",
                     m->name, value);
  m->target.signature.strict_outputs = strict;
  return NULL;
}

static queue_policy queue_policy_of(const Inference__ModelQueuePolicy *policy)
{
  if (policy == NULL)
    return (queue_policy){0};
  return (queue_policy){
      .action = policy->timeout_action == INFERENCE__MODEL_QUEUE_POLICY__TIMEOUT_ACTION__DELAY
                    ? TIMEOUT_DELAY
                    : TIMEOUT_REJECT,
      .default_timeout_us = policy->default_timeout_microseconds,
      .allow_timeout_override = policy->allow_timeout_override,
      .max_queue_size = policy->max_queue_size,
  };
}

// The priority levels that have a policy of their own. NULL when memory is short.
static level_policy *level_policies_of(const Inference__ModelDynamicBatching *batching)
{
  level_policy *policies = calloc(batching->n_priority_queue_policy + 1, sizeof(*policies));
  for (size_t i = 0; policies != NULL && i < batching->n_priority_queue_policy; i++) {
    policies[i].level = batching->priority_queue_policy[i]->key;
    policies[i].policy = queue_policy_of(batching->priority_queue_policy[i]->value);
  }
  return policies;
}

static error *make_dynamic_scheduler(model *m, const Inference__ModelDynamicBatching *batching)
{
  size_t count = batching->n_preferred_batch_size;
  uint32_t *preferred = calloc(count + 1, sizeof(*preferred));
  level_policy *levels = level_policies_of(batching);
  error *e = preferred == NULL || levels == NULL ? error_no_memory() : NULL;
  if (e == NULL && batching->preserve_ordering)
    e = ordering_new(response_send_ordered, m, &m->shared.ordering);
  for (size_t i = 0; e == NULL && i < count; i++)
    preferred[i] = (uint32_t)batching->preferred_batch_size[i];
  if (e == NULL) {
    scheduler_config config = {
        .dynamic_batching = true,
        .max_batch_size = m->shared.max_batch_size,
        .preferred_batch_sizes = preferred,
        .preferred_batch_size_count = count,
        .max_queue_delay_us = batching->max_queue_delay_microseconds,
        .queue =
            {
                .priority_levels = batching->priority_levels,
                .default_priority_level = batching->default_priority_level,
                .default_policy = queue_policy_of(batching->default_queue_policy),
                .level_policies = levels,
                .level_policy_count = batching->n_priority_queue_policy,
            },
        .ordering = m->shared.ordering,
    };
    e = scheduler_new(&config, clock_system(), m->environment.timekeeper, refuse_item, NULL,
                      &m->shared.scheduler);
  }
  free(preferred);
  free(levels);
  return e;
}

static error *make_scheduler(model *m)
{
  if (m->config->scheduling_choice_case ==
      INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING)
    return make_dynamic_scheduler(m, m->config->dynamic_batching);
  scheduler_config config = {.max_batch_size = m->shared.max_batch_size};
  return scheduler_new(&config, clock_system(), m->environment.timekeeper, refuse_item, NULL,
                       &m->shared.scheduler);
}

static error *make_instances(model *m)
{
  m->instances = calloc(config_instances(m->config), sizeof(*m->instances));
  if (m->instances == NULL)
    return error_no_memory();
  for (size_t g = 0; g < m->config->n_instance_group; g++) {
    const Inference__ModelInstanceGroup *group = m->config->instance_group[g];
    size_t count = config_group_instances(group);
    for (size_t i = 0; i < count; i++) {
      size_t gpu = group->n_gpus > 0 ? i % group->n_gpus : 0;
      RETURN_IF_ERROR(
          instance_new(&m->shared, group, i, gpu, &m->instances[m->shared.instance_count]));
      m->shared.instance_count++;
    }
  }
  return NULL;
}

error *model_start(model *m)
{
  LOCK_SCOPE(&m->start_lock);
  for (size_t i = 0; i < m->shared.instance_count; i++)
    RETURN_IF_ERROR(instance_start(m->instances[i]));
  set_stage(m, MODEL_STARTED);
  return NULL;
}

error *model_load(const model_environment *environment, model_source *source, model **result)
{
  backend *b;
  model *m = NULL;
  RETURN_IF_ERROR(backend_search(environment, source, &b));
  error *e = make_model(environment, source, &m);
  if (e == NULL) {
    m->shared.backend = b;
    e = initialize_model(m);
  }
  if (e == NULL)
    e = signature_init(&m->target.signature, m->config);
  if (e == NULL)
    e = read_strict_outputs(m);
  if (e == NULL)
    e = read_labels(m);
  if (e == NULL)
    e = statistics_init(&m->target.shared_statistics, m->shared.max_batch_size);
  if (e == NULL)
    e = model_measures_make(environment->metric_settings, m->config, &m->target, &m->metric_labels);
  if (e == NULL)
    e = make_scheduler(m);
  if (e == NULL)
    e = make_instances(m);
  if (e != NULL) {
    if (m != NULL)
      model_destroy(m);
    return e;
  }
  *result = m;
  return NULL;
}

void model_destroy(model *m)
{
  if (m->shared.scheduler != NULL)
    scheduler_stop(m->shared.scheduler);
  cancelled_requests_fini(&m->cancelled);
  for (size_t i = 0; i < m->shared.instance_count; i++)
    instance_join(m->instances[i]);
  for (size_t i = 0; i < m->shared.instance_count; i++)
    instance_free(m->instances[i]);
  free(m->instances);
  if (m->stage >= MODEL_INITIALIZED && m->shared.backend->functions.model_finalize != NULL) {
    AUTO_ERROR error *e = (error *)m->shared.backend->functions.model_finalize(m);
    if (e != NULL)
      log_error("failed to finalize model '%s': %s", m->name, error_message(e));
  }
  if (m->shared.scheduler != NULL)
    scheduler_free(m->shared.scheduler);
  if (m->shared.ordering != NULL)
    ordering_free(m->shared.ordering);
  signature_fini(&m->target.signature);
  statistics_fini(&m->target.shared_statistics);
  model_measures_free(&m->target, m->metric_labels);
  config_free(m->config);
  pthread_mutex_destroy(&m->start_lock);
  response_statistics_fini(&m->target.response_statistics);
  upload_unref(m->upload);
  free(m->name);
  free(m->repository);
  free(m->dir);
  free(m);
}

model *model_ref(model *m)
{
  request_target_ref(&m->target);
  return m;
}

void model_unref(model *m)
{
  request_target_unref(&m->target);
}

error *model_complete_config(model *m, const Inference__ModelConfig *found)
{
  if (m->stage != MODEL_COMPLETING)
    return error_new(
        ERROR_INVALID_ARG,
        "model '%s': the configuration can only be changed while the model initializes", m->name);
  return config_apply_autocomplete(m->config, found);
}

void model_ask_health(const model *m)
{
  const backend_functions *functions = &m->shared.backend->functions;
  for (size_t i = 0; i < m->shared.instance_count && functions->model_instance_ask_ready != NULL;
       i++)
    functions->model_instance_ask_ready(m->instances[i]);
}

// All are heard: the answer of one that was asked must not wait for the next question.
bool model_is_healthy(model *m)
{
  bool healthy = true;
  for (size_t i = 0; i < m->shared.instance_count; i++) {
    AUTO_ERROR error *e = instance_ready(m->instances[i]);
    if (e != NULL)
      log_verbose(1, "instance '%s' is not ready: %s", m->instances[i]->name, error_message(e));
    healthy = healthy && e == NULL;
  }
  return healthy;
}

bool model_has_fault(const model *m, char *text, size_t size)
{
  const backend_functions *functions = &m->shared.backend->functions;
  if (functions->model_instance_fault == NULL)
    return false;
  for (size_t i = 0; i < m->shared.instance_count; i++)
    if (functions->model_instance_fault(m->instances[i], text, size))
      return true;
  return false;
}

void model_statistics(const model *m, statistics *sum)
{
  statistics_add(sum, &m->target.shared_statistics);
  if (!model_is_started(m))
    return;
  for (size_t i = 0; i < m->shared.instance_count; i++)
    statistics_add(sum, &m->instances[i]->counters);
}
