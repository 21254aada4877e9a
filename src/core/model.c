// SPDX-License-Identifier: Apache-2.0
// Loads and destroys a model version. Loading runs on a load thread, destroying on the server's
// reaper.
#include "core/model.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/state.h"
#include "core/backend_search.h"
#include "core/batch_strategy.h"
#include "core/ensemble_record.h"
#include "core/gpus.h"
#include "core/labels.h"
#include "core/load_memory.h"
#include "core/model_cache.h"
#include "core/model_gpus.h"
#include "core/model_instances.h"
#include "core/model_measures.h"
#include "core/model_queue.h"
#include "core/server_options.h"
#include "core/state_rules.h"

#include <stdlib.h>
#include <string.h>

static void set_stage(model *m, model_stage to)
{
  static const unsigned allowed[] = {
      [MODEL_MADE] = STATE_BIT(MODEL_COMPLETING) | STATE_BIT(MODEL_INITIALIZED),
      [MODEL_COMPLETING] = STATE_BIT(MODEL_MADE) | STATE_BIT(MODEL_INITIALIZED),
      [MODEL_INITIALIZED] = 0,
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
  m->id = strdup(source->id);
  m->agents = agent_chain_ref(source->agents);
  m->repository = strdup(source->repository);
  m->folder = strdup(source->folder);
  m->dir = strdup(source->dir);
  if (m->id == NULL || m->repository == NULL || m->folder == NULL || m->dir == NULL)
    return error_no_memory();
  m->name = m->id + strlen(m->id) - strlen(source->name);
  m->target.name = m->name;
  m->target.version = source->version;
  m->target.unreferenced = target_unreferenced;
  refcount_init(&m->target.references);
  m->shared.model = m;
  m->shared.target = &m->target;
  m->shared.host_policies = &environment->options->host_policies;
  m->shared.gpus = environment->gpus;
  m->shared.rate_limiter = environment->rate_limiter;
  atomic_init(&m->shared.typical_ns, INSTANCE_SLOW_NS);
  atomic_init(&m->used_ns, clock_monotonic_ns());
  pthread_mutex_init(&m->change_lock, NULL);
  pthread_mutex_init(&m->start_lock, NULL);
  pthread_mutex_init(&m->instance_lock, NULL);
  pthread_cond_init(&m->instances_left, NULL);
  response_statistics_init(&m->target.response_statistics);
  memory_report_init(&m->memory);
  return NULL;
}

// Threads that a backend starts for a whole model get the placement of the instances, if they share
// one.
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

static error *read_labels(model *m)
{
  AUTO_ROOT file_root dir = FILE_ROOT_CLOSED;
  if (!labels_are_named(m->config))
    return NULL;
  RETURN_IF_ERROR(model_open_dir(m, &dir));
  return labels_read(m->config, &dir, &m->target.signature);
}

// The GPUs that groups may name. A process that serves one model for another may use all that the
// groups name, since the server has checked them.
static config_gpus usable_gpus(const model *m, int32_t ids[MAX_GPUS])
{
  config_gpus gpus = gpus_supported(m->environment.gpus);
  if (m->environment.gpus != NULL)
    return gpus;
  gpus.ids = ids;
  for (size_t g = 0; g < m->config->n_instance_group; g++) {
    const Inference__ModelInstanceGroup *group = m->config->instance_group[g];
    for (size_t i = 0; i < group->n_gpus && gpus.count < MAX_GPUS; i++)
      if (!config_has_gpu(gpus, group->gpus[i]))
        ids[gpus.count++] = group->gpus[i];
  }
  return gpus;
}

// Lets the backend look at the model and complete its configuration, then makes the configuration
// final.
static error *initialize_model(model *m, const source_map *places)
{
  int32_t ids[MAX_GPUS];
  config_gpus gpus = usable_gpus(m, ids);
  const backend_attribute *prefers = &m->shared.backend->attribute;
  gpus.avoided = prefers->avoids_gpus;
  RETURN_IF_ERROR(
      config_normalize_instance_groups(m->config, prefers->groups, prefers->group_count, gpus));
  RETURN_IF_ERROR(config_validate_instance_groups(m->config, gpus, places));
  if (m->shared.backend->functions.model_initialize != NULL)
    RETURN_IF_ERROR(initialize_in_place(m));
  else
    set_stage(m, MODEL_INITIALIZED);
  RETURN_IF_ERROR(config_validate(m->config, gpus, places));
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

// The namespace is the part of the id before "::".
static error *make_measures(model *m)
{
  char *namespace AUTO_FREE = NULL;
  if (m->name != m->id &&
      (namespace = strndup(m->id, (size_t)(m->name - m->id) - strlen("::"))) == NULL)
    return error_no_memory();
  return model_measures_make(m->environment.metric_settings, m->config, &m->target, namespace,
                             &m->metric_labels);
}

// The backend of all ensembles. It has no functions, since ensembles have no instances.
static backend *no_backend(void)
{
  static char name[] = "ensemble", nowhere[] = "";
  static backend none = {.name = name, .library = nowhere, .dir = nowhere, .fills = true};
  return &none;
}

static error *find_backend(const model_environment *environment, const model_source *source,
                           backend **b, backend_choice *isolated)
{
  const backend_choice *given = source->backend;
  if (config_is_ensemble(source->config_owned)) {
    *b = no_backend();
    return NULL;
  }
  if (given == NULL)
    return backend_search(environment, source, b, isolated);
  const backend_location location = {
      .name = given->name, .library = given->library, .dir = given->dir, .key = given->key};
  return backend_registry_get(environment->backends, &location, given->settings, b);
}

// Takes over `isolated`. `strategy`: the path of a library; NULL: none.
static error *load(const model_environment *environment, model_source *source, backend *b,
                   backend_choice *isolated, const char *strategy, model **result)
{
  error *e = make_model(environment, source, result);
  model *m = *result;
  if (m == NULL) {
    backend_choice_fini(isolated);
    return e;
  }
  m->isolated = *isolated;
  m->shared.is_isolated = isolated->library != NULL;
  if (e == NULL) {
    m->shared.backend = b;
    m->target.leaves_gaps = !b->fills;
    e = initialize_model(m, source->places);
  }
  if (e == NULL && strategy != NULL)
    e = batch_strategy_open(m, strategy);
  if (e == NULL)
    e = signature_init(&m->target.signature, m->config);
  if (e == NULL)
    e = read_strict_outputs(m);
  if (e == NULL)
    e = read_labels(m);
  if (e == NULL)
    e = statistics_init(&m->target.shared_statistics, m->shared.max_batch_size);
  if (e == NULL)
    e = make_measures(m);
  if (e == NULL)
    e = model_cache_make(m);
  if (e == NULL)
    e = state_rules_make(m, &m->states);
  if (e == NULL)
    e = model_queue_make(m);
  if (e == NULL)
    e = model_instances_make(m);
  if (e == NULL && config_is_ensemble(m->config)) {
    m->runner = environment->ensembles;
    e = m->runner->make(m);
  }
  return e;
}

error *model_load(const model_environment *environment, model_source *source, model **result)
{
  backend *b;
  model *m = NULL;
  load_share share;
  backend_choice isolated = {0};
  AUTO_FREE char *strategy = NULL;
  error *e = find_backend(environment, source, &b, &isolated);
  if (e == NULL)
    e = batch_strategy_find(environment, source, &strategy);
  if (e != NULL) {
    backend_choice_fini(&isolated);
    return e;
  }
  load_memory_begin(load_memory_process(), &share, source->file_bytes);
  e = load(environment, source, b, &isolated, strategy, &m);
  uint64_t bytes = load_memory_end(load_memory_process(), &share);
  if (e != NULL) {
    if (m != NULL)
      model_destroy(m);
    return e;
  }
  atomic_init(&m->loaded_bytes, bytes);
  *result = m;
  return NULL;
}

void model_destroy(model *m)
{
  load_memory_begin_free(load_memory_process());
  model_queue_close(m);
  cancelled_requests_fini(&m->cancelled);
  batch_strategy_close(m); // nothing is queued
  model_instances_free(m);
  if (m->stage >= MODEL_INITIALIZED && m->shared.backend->functions.model_finalize != NULL) {
    AUTO_ERROR error *e = (error *)m->shared.backend->functions.model_finalize(m);
    if (e != NULL)
      log_error("failed to finalize model '%s': %s", m->name, error_message(e));
  }
  model_queue_free(m);
  if (m->runner != NULL)
    m->runner->free(m);
  state_rules_free(m->states);
  signature_fini(&m->target.signature);
  statistics_fini(&m->target.shared_statistics);
  model_measures_free(&m->target, m->metric_labels);
  model_gpus_free(m);
  model_cache_free(m->cache);
  config_free(m->config);
  pthread_mutex_destroy(&m->change_lock);
  pthread_mutex_destroy(&m->start_lock);
  pthread_mutex_destroy(&m->instance_lock);
  pthread_cond_destroy(&m->instances_left);
  response_statistics_fini(&m->target.response_statistics);
  agent_chain_unref(m->agents);
  memory_report_fini(&m->memory);
  upload_unref(m->upload);
  free(m->id);
  free(m->repository);
  free(m->folder);
  free(m->dir);
  backend_choice_fini(&m->isolated);
  uint64_t bytes = m->loaded_bytes;
  free(m);
  load_memory_end_free(load_memory_process(), bytes);
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

void model_touch(model *m)
{
  atomic_store_explicit(&m->used_ns, clock_monotonic_ns(), memory_order_relaxed);
}

void model_touch_with(model *m, const model *ensemble)
{
  uint64_t used = atomic_load_explicit(&ensemble->used_ns, memory_order_relaxed);
  if (atomic_load_explicit(&m->used_ns, memory_order_relaxed) < used)
    atomic_store_explicit(&m->used_ns, used, memory_order_relaxed);
}

error *model_complete_config(model *m, const Inference__ModelConfig *found)
{
  if (m->stage != MODEL_COMPLETING)
    return error_new(
        ERROR_INVALID_ARG,
        "model '%s': the configuration can only be changed while the model initializes", m->name);
  return config_apply_autocomplete(m->config, found);
}
