// SPDX-License-Identifier: Apache-2.0
// The server's life, and loads and unloads on request. Functions that block are called by the
// embedding program's threads or the front ends' job threads.
#include "core/server.h"

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "core/cache.h"
#include "core/demand.h"
#include "core/dependents.h"
#include "core/ensemble.h"
#include "core/gpu_refusal.h"
#include "core/gpu_watch.h"
#include "core/gpus.h"
#include "core/lifecycle.h"
#include "core/model_instances.h"
#include "core/model_metrics.h"
#include "core/model_queue.h"
#include "core/poller.h"
#include "core/routing.h"
#include "core/server_state.h"
#include "core/server_tables.h"
#include "core/startup_models.h"
#include "core/submit.h"
#include "repository/repository.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_SECOND  1000000000u
#define DRAIN_CHECK_NS 10000000u // how often a stopping server counts its requests

// ---- start ----

static error *check_options(const server_options *o)
{
  if (o->model_repositories.count == 0)
    return error_new(ERROR_INVALID_ARG, "--model-repository must be specified");
  if (o->model_control_mode != TRITONSERVER_MODEL_CONTROL_EXPLICIT && o->startup_models.count > 0)
    return error_new(ERROR_INVALID_ARG,
                     "--load-model=%s can only be given with --model-control-mode=explicit",
                     o->startup_models.items[0]);
  if (string_list_contains(&o->startup_models, "*") && o->startup_models.count > 1)
    return error_new(ERROR_INVALID_ARG,
                     "--load-model=* means all models, so it must be the only --load-model");
  if (o->model_namespacing && o->on_demand)
    return error_new(ERROR_UNSUPPORTED,
                     "--model-namespacing is not supported with --model-control-mode=ondemand: the "
                     "first request for a name could not tell which of its models to load");
  if (o->cache_configs.count > 1)
    return error_new(ERROR_INVALID_ARG,
                     "found multiple cache configurations, but only a single cache is currently "
                     "supported");
  return NULL;
}

// Finds the operator's mistakes before anything is loaded.
static error *look_at_repositories(const server_options *o)
{
  repository_listing listing;
  AUTO_REPOSITORY_SET repository_set repositories;
  RETURN_IF_ERROR(repository_set_init(&repositories, &o->model_repositories, &file_policy_anywhere,
                                      o->model_namespacing));
  error *e = repository_scan(&repositories, &listing);
  repository_listing_fini(&listing);
  return e;
}

static error *add_link_roots(file_policy *links, const string_list *dirs)
{
  for (size_t i = 0; i < dirs->count; i++)
    RETURN_IF_ERROR(file_policy_add_root(links, dirs->items[i]));
  return NULL;
}

// Links are followed wherever they lead, unless keeps_links is set.
static error *init_links(server *s)
{
  const server_options *o = &s->options;
  if (!o->keeps_links)
    return NULL;
  s->links.links = FILE_LINKS_KEPT;
  RETURN_IF_ERROR(add_link_roots(&s->links, &o->link_dirs));
  return add_link_roots(&s->links, &o->model_repositories);
}

// Logs when the kernel cannot keep paths below their roots.
static void log_who_walks_paths(void)
{
  int reason = files_walk_reason();
  if (reason != 0)
    log_info("the system call openat2 cannot be used here (%s): the server walks paths by itself, "
             "under the same rules",
             strerror(reason));
}

static void model_unreferenced(server *s, model *m)
{
  live_models_queue_destroy(&s->live, m);
}

static void run_later(server *s, load_task *task)
{
  live_models_queue_task(&s->live, task);
}

static void set_startup(server *s, startup_state to)
{
  assert(lock_is_held(&s->lock) && s->startup + 1 == to);
  s->startup = to;
}

// Does nothing when the server is about to end.
static error *begin_polling(server *s)
{
  if (s->options.model_control_mode != TRITONSERVER_MODEL_CONTROL_POLL ||
      server_state_of(s) == SERVER_EXITING)
    return NULL;
  return poller_new(s, s->options.poll_seconds, &s->poller);
}

static void *run_startup(void *server_pointer)
{
  server *s = server_pointer;
  error *loaded = load_startup_models(s);
  AUTO_ERROR error *e = loaded != NULL && s->options.exit_on_error ? NULL : begin_polling(s);
  if (loaded != NULL) {
    error_free(e);
    e = loaded;
  }
  model_metrics_await(s->metrics);
  server_log_tables(s);
  server_state expected = SERVER_STARTING;
  if (e == NULL || !s->options.exit_on_error) // else the server ends, and is never ready
    atomic_compare_exchange_strong(&s->state, &expected, SERVER_READY);
  LOCK_SCOPE(&s->lock);
  s->startup_failure = e != NULL ? strdup(error_message(e)) : NULL;
  set_startup(s, STARTUP_OVER);
  pthread_cond_broadcast(&s->changed);
  return NULL;
}

static error *init_repositories(server *s)
{
  const server_options *o = &s->options;
  RETURN_IF_ERROR(init_links(s));
  return repository_set_init(&s->repositories, &o->model_repositories, &s->links,
                             o->model_namespacing);
}

static error *init_threads(server *s)
{
  RETURN_IF_ERROR(timekeeper_new(clock_system(), &s->timekeeper));
  error *e = live_models_init(&s->live, lifecycle_model_gone, s);
  if (e != NULL)
    timekeeper_free(s->timekeeper);
  return e;
}

static error *make_server(const server_options *options, server **result)
{
  server *s = calloc(1, sizeof(*s));
  if (s == NULL)
    return error_no_memory();
  error *e = server_options_copy(&s->options, options);
  if (e == NULL && ((e = metric_settings_read(&s->options, &s->metric_settings)) != NULL ||
                    (e = init_repositories(s)) != NULL || (e = init_threads(s)) != NULL))
    server_options_fini(&s->options);
  if (e != NULL) {
    metric_settings_fini(&s->metric_settings);
    repository_set_fini(&s->repositories);
    file_policy_fini(&s->links);
    free(s);
    return e;
  }
  s->environment = (model_environment){
      .server = s,
      .options = &s->options,
      .metric_settings = &s->metric_settings,
      .backends = &s->backends,
      .timekeeper = s->timekeeper,
      .ensembles = &ensemble_runner,
      .unreferenced = model_unreferenced,
      .run_later = run_later,
  };
  backend_registry_init(&s->backends, (struct TRITONBACKEND_MemoryManager *)&s->environment);
  agent_registry_init(&s->agents, s->options.agent_directory);
  model_table_init(&s->models, s->options.model_namespacing);
  load_pool_init(&s->pool, "load", options->model_load_thread_count);
  atomic_init(&s->state, SERVER_STARTING);
  atomic_init(&s->exit_timeout_seconds, options->exit_timeout_seconds);
  pthread_mutex_init(&s->lock, NULL);
  pthread_cond_init(&s->changed, NULL);
  *result = s;
  return NULL;
}

// Does nothing if start-up has begun.
static error *begin_startup(server *s)
{
  LOCK_SCOPE(&s->lock);
  if (s->startup != STARTUP_DUE)
    return NULL;
  if (server_state_of(s) == SERVER_EXITING)
    return error_new(ERROR_UNAVAILABLE, "Server exiting");
  error *e = thread_start(&s->startup_thread, "startup", run_startup, s);
  if (e == NULL)
    set_startup(s, STARTUP_RUNNING);
  return e;
}

static error *await_startup(server *s)
{
  LOCK_SCOPE(&s->lock);
  while (s->startup != STARTUP_OVER)
    pthread_cond_wait(&s->changed, &s->lock);
  return s->startup_failure == NULL ? NULL : error_new(ERROR_INTERNAL, "%s", s->startup_failure);
}

static bool startup_is_over(server *s)
{
  LOCK_SCOPE(&s->lock);
  return s->startup == STARTUP_OVER;
}

error *server_poll(server *s)
{
  if (!startup_is_over(s)) {
    RETURN_IF_ERROR(begin_startup(s));
    return await_startup(s);
  }
  if (s->options.model_control_mode != TRITONSERVER_MODEL_CONTROL_POLL)
    return error_new(ERROR_UNAVAILABLE, "polling is disabled");
  if (s->poller != NULL && server_state_of(s) == SERVER_READY)
    poller_poll(s->poller);
  return NULL;
}

static error *start_up(server *s)
{
  RETURN_IF_ERROR(begin_startup(s));
  error *e = await_startup(s);
  if (s->options.exit_on_error)
    return e;
  error_free(e); // logged; the server runs with the models that are loaded
  return NULL;
}

static error *open_cache(server *s)
{
  const setting *config = s->options.cache_configs.items;
  if (s->options.cache_configs.count == 0)
    return NULL;
  RETURN_IF_ERROR(response_cache_open(s->options.cache_directory, config->group, config->value,
                                      submit_looked_up, &s->cache));
  s->environment.cache = s->cache;
  return NULL;
}

error *server_new(const server_options *options, server **result)
{
  server *s;
  RETURN_IF_ERROR(check_options(options));
  log_who_walks_paths();
  RETURN_IF_ERROR(look_at_repositories(options));
  RETURN_IF_ERROR(make_server(options, &s));
  error *e = gpus_new(&s->options, &s->environment.gpus);
  if (e == NULL)
    e = rate_limiter_new(&s->options, &s->environment.rate_limiter);
  if (e == NULL)
    e = server_watch_gpus(s);
  if (e == NULL)
    e = open_cache(s);
  if (e == NULL && options->on_demand)
    e = demand_new(s, options->memory_budget_bytes, &s->demand);
  if (e == NULL && options->metrics)
    e = model_metrics_new(s, &s->metrics);
  if (e == NULL && !s->options.background_load)
    e = start_up(s);
  if (e != NULL) {
    server_free(s);
    return e;
  }
  *result = s;
  return NULL;
}

error *server_new_host(const server_options *options, server **result)
{
  RETURN_IF_ERROR(make_server(options, result));
  atomic_store_explicit(&(*result)->state, SERVER_READY, memory_order_release);
  return NULL;
}

const model_environment *server_model_environment(const server *s)
{
  return &s->environment;
}

// ---- end ----

void server_set_exit_timeout(server *s, unsigned int seconds)
{
  atomic_store_explicit(&s->exit_timeout_seconds, seconds, memory_order_relaxed);
}

static void stop_model(void *context, model *m)
{
  (void)context;
  model_queue_stop(m);
}

static void log_cut_off(void *context, model *m)
{
  (void)context;
  uint64_t inside = atomic_load_explicit(&m->target.inflight, memory_order_acquire);
  if (inside > 0)
    log_warning("model '%s' (version %" PRId64 ") has %" PRIu64
                " in-flight inferences that are cut off",
                m->name, m->target.version, inside);
}

static void count_inflight(void *context, model *m)
{
  *(uint64_t *)context += atomic_load_explicit(&m->target.inflight, memory_order_acquire);
}

static void count_awaited(void *context, model *m)
{
  *(uint64_t *)context += model_queue_awaited(m);
}

uint64_t server_inflight(server *s)
{
  uint64_t sum = 0;
  live_models_visit(&s->live, count_inflight, &sum);
  return sum;
}

// With what open sequences still owe.
static uint64_t inflight(server *s)
{
  uint64_t sum = server_inflight(s);
  live_models_visit(&s->live, count_awaited, &sum);
  return sum;
}

// Waits until no request is inside. False: the time is over.
static bool drain(server *s, uint64_t deadline_ns)
{
  const struct timespec pause = {.tv_nsec = DRAIN_CHECK_NS};
  while (inflight(s) > 0) {
    if (clock_monotonic_ns() >= deadline_ns)
      return false;
    nanosleep(&pause, NULL);
  }
  return true;
}

// Answers queued requests, also of versions that leave. Each model is referenced and the list is
// not locked, because the answers drop references.
static void abandon_queues(server *s)
{
  model *m = NULL;
  live_models_visit(&s->live, log_cut_off, NULL);
  while ((m = live_models_next(&s->live, m)) != NULL) {
    model_queue_abandon(m);
    model_visit_instances(m, instance_end_wait, NULL);
  }
}

// Waits for the start-up thread, whose loads now fail early. False: the time is over.
static bool await_startup_until(server *s, uint64_t deadline_ns)
{
  LOCK_SCOPE(&s->lock);
  while (s->startup == STARTUP_RUNNING && thread_wait(&s->changed, &s->lock, deadline_ns))
    ;
  return s->startup != STARTUP_RUNNING;
}

// The list is not locked: the requests that this releases drop references.
void server_end_sequences(server *s)
{
  model *m = NULL;
  while ((m = live_models_next(&s->live, m)) != NULL)
    model_queue_dismiss(m);
}

error *server_stop(server *s)
{
  unsigned seconds = atomic_load_explicit(&s->exit_timeout_seconds, memory_order_relaxed);
  uint64_t deadline = clock_monotonic_ns() + (uint64_t)seconds * NS_PER_SECOND;
  if (atomic_exchange(&s->state, SERVER_EXITING) == SERVER_EXITING)
    return NULL;
  log_info("Waiting for in-flight requests to complete.");
  demand_stop(s->demand);
  live_models_visit(&s->live, stop_model, NULL);
  routing_cancel_all_shadows(s);
  log_info("Timeout %u: Found %" PRIu64 " in-flight inferences", seconds, inflight(s));
  bool in_time = await_startup_until(s, deadline) &&
                 (s->poller == NULL || poller_stop(s->poller, deadline)) && drain(s, deadline);
  if (!in_time)
    abandon_queues(s);
  else
    log_info("All models are stopped, unloading models");
  if (in_time) {
    lifecycle_unload_all(s);
    in_time = live_models_await_none(&s->live, deadline) == 0;
  }
  return in_time ? NULL : error_new(ERROR_INTERNAL, "Exit timeout expired. Exiting immediately.");
}

void server_free(server *s)
{
  if (s == NULL)
    return;
  AUTO_ERROR error *e = server_stop(s);
  model_metrics_free(s->metrics); // scrapes visit the models, as the watch does
  gpu_watch_stop(s->environment.gpu_watch);
  if (e != NULL)
    log_error("%s", error_message(e));
  // After a stop that ran out of time, a backend may still use all of this.
  if (e != NULL || !live_models_fini(&s->live))
    return;
  if (s->startup != STARTUP_DUE)
    pthread_join(s->startup_thread, NULL);
  demand_free(s->demand);
  load_pool_fini(&s->pool);
  poller_free(s->poller);
  backend_registry_fini(&s->backends);
  agent_registry_fini(&s->agents);
  response_cache_close(s->cache);
  rate_limiter_free(s->environment.rate_limiter);
  gpu_watch_free(s->environment.gpu_watch);
  gpus_free(s->environment.gpus);
  timekeeper_free(s->timekeeper);
  model_table_fini(&s->models);
  metric_settings_fini(&s->metric_settings);
  server_options_fini(&s->options);
  repository_set_fini(&s->repositories);
  file_policy_fini(&s->links);
  free(s->startup_failure);
  pthread_cond_destroy(&s->changed);
  pthread_mutex_destroy(&s->lock);
  free(s);
}

// ---- coming and going ----

static error *check_control(const server *s)
{
  if (s->options.model_control_mode != TRITONSERVER_MODEL_CONTROL_EXPLICIT)
    return error_new(ERROR_UNAVAILABLE,
                     "explicit model load / unload is not allowed if polling is enabled");
  if (server_state_of(s) != SERVER_READY)
    return error_new(ERROR_UNAVAILABLE, "Server not ready");
  return NULL;
}

static error *check_name(const char *name)
{
  error *e = repository_check_name(name);
  return e == NULL
             ? NULL
             : error_wrap(e, "failed to load '%s', failed to poll from model repository", name);
}

static error *not_polled(const char *name, const char *reason)
{
  log_error("failed to poll model '%s': %s.", name, reason);
  return error_new(ERROR_INTERNAL, "failed to load '%s', failed to poll from model repository: %s",
                   name, reason);
}

static void load_wished(server *s, model_wish *wishes, size_t count)
{
  dependents_load(s, wishes, count, NULL);
  demand_settle(s->demand);
}

// Joins the texts of two errors, each of which names its model.
static error *join_errors(error *first_owned, error *second_owned)
{
  if (first_owned == NULL || second_owned == NULL)
    return first_owned != NULL ? first_owned : second_owned;
  error *e = error_new(error_get_code(first_owned), "%s%s", error_message(first_owned),
                       error_message(second_owned));
  error_free(first_owned);
  error_free(second_owned);
  return e;
}

// Loads the model; with namespacing those of this name in all repositories.
static error *load_found(server *s, const repository_listing *found, const char *config_json)
{
  error *e = NULL;
  size_t count = 0;
  model_wish *wishes AUTO_FREE = calloc(found->count, sizeof(*wishes));
  if (wishes == NULL)
    return error_no_memory();
  for (size_t i = 0; i < found->count; i++) {
    const repository_model *model = &found->items[i];
    if (model->duplicate)
      e = join_errors(e, not_polled(model->bare, "not unique across all model repositories"));
    else
      wishes[count++] = (model_wish){.found = model, .config_json = config_json};
  }
  load_wished(s, wishes, count);
  for (size_t i = 0; i < count; i++)
    e = join_errors(e, wishes[i].failure);
  return e;
}

error *server_load_model(server *s, const char *name, const char *config_json)
{
  RETURN_IF_ERROR(check_control(s));
  RETURN_IF_ERROR(check_name(name));
  repository_listing found;
  error *e = repository_find(&s->repositories, name, &found);
  if (e != NULL && error_get_code(e) != ERROR_UNAVAILABLE) {
    error *cause = e;
    e = not_polled(name, error_message(cause));
    error_free(cause);
  }
  if (e == NULL)
    e = load_found(s, &found, config_json);
  repository_listing_fini(&found);
  return e;
}

error *server_load_model_files(server *s, const char *name, const char *config_json,
                               const uploaded_file *files, size_t count)
{
  upload *stored;
  RETURN_IF_ERROR(check_control(s));
  RETURN_IF_ERROR(check_name(name));
  if (config_json == NULL)
    return error_new(ERROR_INVALID_ARG,
                     "failed to load '%s', failed to poll from model repository: Load parameter "
                     "'config' must be specified for model file override",
                     name);
  error *e = upload_new(name, files, count, &stored);
  if (e != NULL)
    return error_wrap(e, "failed to load '%s', failed to poll from model repository", name);
  const repository_model found = {.name = (char *)name,
                                  .bare = name,
                                  .repository = (char *)upload_repository(stored),
                                  .folder = (char *)name};
  model_wish wish = {.found = &found, .config_json = config_json, .files = stored};
  load_wished(s, &wish, 1);
  upload_unref(stored); // the load has its own reference
  return wish.failure;
}

error *server_unload_model(server *s, const char *name, bool dependents)
{
  RETURN_IF_ERROR(check_control(s));
  return dependents_unload(s, name, dependents);
}
