// The server's life and its answers about models. What blocks is called by the embedding program's
// threads or the front ends' job threads.
#include "core/server.h"

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "core/lifecycle.h"
#include "core/model_metrics.h"
#include "core/server_state.h"
#include "core/server_tables.h"
#include "repository/repository.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_SECOND  1000000000u
#define DRAIN_CHECK_NS 10000000u // how often a stopping server counts the requests inside

// ---- start ----

static error *check_options(const server_options *o)
{
  if (o->model_repositories.count == 0)
    return error_new(ERROR_INVALID_ARG, "--model-repository must be specified");
  if (o->model_control_mode == TRITONSERVER_MODEL_CONTROL_POLL)
    return error_new(ERROR_UNSUPPORTED,
                     "--model-control-mode=poll is not supported by nereid yet, expected none or "
                     "explicit: with explicit, POST /v2/repository/models/<model>/load loads what "
                     "has changed");
  if (o->model_control_mode != TRITONSERVER_MODEL_CONTROL_EXPLICIT && o->startup_models.count > 0)
    return error_new(ERROR_INVALID_ARG,
                     "--load-model=%s can only be given with --model-control-mode=explicit",
                     o->startup_models.items[0]);
  if (string_list_contains(&o->startup_models, "*") && o->startup_models.count > 1)
    return error_new(ERROR_INVALID_ARG,
                     "--load-model=* means all models, so it must be the only --load-model");
  if (o->model_namespacing)
    return error_new(
        ERROR_UNSUPPORTED,
        "--model-namespacing is not supported by nereid yet: leave it out, and give the "
        "models of all repositories names of their own");
  if (o->rate_limiter_mode != TRITONSERVER_RATE_LIMIT_OFF)
    return error_new(
        ERROR_UNSUPPORTED,
        "--rate-limit is not supported by nereid yet, expected off: each instance then "
        "takes requests as soon as it is idle");
  if (o->has_cache)
    return error_new(ERROR_UNSUPPORTED, "--cache-config is not supported by nereid yet");
  return NULL;
}

// The operator's mistakes show before anything is loaded.
static error *check_repositories(const server_options *o)
{
  repository_listing listing;
  const repository_set repositories = {&o->model_repositories, &file_policy_anywhere};
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

// Links are followed wherever they lead, unless they are kept.
static error *init_links(server *s)
{
  const server_options *o = &s->options;
  s->repositories = (repository_set){&o->model_repositories, &s->links};
  if (!o->keeps_links)
    return NULL;
  s->links.links = FILE_LINKS_KEPT;
  RETURN_IF_ERROR(add_link_roots(&s->links, &o->link_dirs));
  return add_link_roots(&s->links, &o->model_repositories);
}

static void model_unreferenced(server *s, model *m)
{
  live_models_queue_destroy(&s->live, m);
}

static void set_startup(server *s, startup_state to)
{
  assert(lock_is_held(&s->lock) && s->startup + 1 == to);
  s->startup = to;
}

static void *run_startup(void *server_pointer)
{
  server *s = server_pointer;
  AUTO_ERROR error *e = lifecycle_load_startup_models(s);
  server_log_tables(s);
  server_state expected = SERVER_STARTING;
  if (e == NULL || !s->options.exit_on_error) // else it is to end, and was never ready
    atomic_compare_exchange_strong(&s->state, &expected, SERVER_READY);
  LOCK_SCOPE(&s->lock);
  s->startup_failure = e != NULL ? strdup(error_message(e)) : NULL;
  set_startup(s, STARTUP_OVER);
  pthread_cond_broadcast(&s->changed);
  return NULL;
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
                    (e = init_links(s)) != NULL || (e = init_threads(s)) != NULL))
    server_options_fini(&s->options);
  if (e != NULL) {
    metric_settings_fini(&s->metric_settings);
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
      .unreferenced = model_unreferenced,
  };
  backend_registry_init(&s->backends);
  model_table_init(&s->models);
  load_pool_init(&s->pool, "load", options->model_load_thread_count);
  atomic_init(&s->state, SERVER_STARTING);
  atomic_init(&s->exit_timeout_seconds, options->exit_timeout_seconds);
  pthread_mutex_init(&s->lock, NULL);
  pthread_cond_init(&s->changed, NULL);
  *result = s;
  return NULL;
}

// Unless it has begun, or the server is to end already.
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

error *server_await_startup(server *s)
{
  RETURN_IF_ERROR(begin_startup(s));
  return await_startup(s);
}

static error *start_up(server *s)
{
  RETURN_IF_ERROR(begin_startup(s));
  error *e = await_startup(s);
  if (s->options.exit_on_error)
    return e;
  error_free(e); // logged; the server runs with what there is
  return NULL;
}

error *server_new(const server_options *options, server **result)
{
  server *s;
  RETURN_IF_ERROR(check_options(options));
  RETURN_IF_ERROR(check_repositories(options));
  RETURN_IF_ERROR(make_server(options, &s));
  error *e = options->metrics ? model_metrics_new(s, &s->metrics) : NULL;
  if (e == NULL && !s->options.background_load)
    e = start_up(s);
  if (e != NULL) {
    server_free(s);
    return e;
  }
  *result = s;
  return NULL;
}

// ---- end ----

void server_set_exit_timeout(server *s, unsigned int seconds)
{
  atomic_store_explicit(&s->exit_timeout_seconds, seconds, memory_order_relaxed);
}

static void stop_model(void *context, model *m)
{
  (void)context;
  scheduler_stop(m->shared.scheduler);
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

static uint64_t inflight(server *s)
{
  uint64_t sum = 0;
  live_models_visit(&s->live, count_inflight, &sum);
  return sum;
}

// Waits until no request is inside; false when the time is over.
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

// Answers what is still queued, also for versions that are leaving: unloaded or replaced. They are
// referenced meanwhile, and their list is not locked: the answers drop references.
static void abandon_queues(server *s)
{
  model *m = NULL;
  live_models_visit(&s->live, log_cut_off, NULL);
  while ((m = live_models_next(&s->live, m)) != NULL)
    scheduler_abandon(m->shared.scheduler);
}

// Waits for the start-up thread, whose loads fail early now; false when the time is over.
static bool await_startup_until(server *s, uint64_t deadline_ns)
{
  LOCK_SCOPE(&s->lock);
  while (s->startup == STARTUP_RUNNING && thread_wait(&s->changed, &s->lock, deadline_ns))
    ;
  return s->startup != STARTUP_RUNNING;
}

error *server_stop(server *s)
{
  unsigned seconds = atomic_load_explicit(&s->exit_timeout_seconds, memory_order_relaxed);
  uint64_t deadline = clock_monotonic_ns() + (uint64_t)seconds * NS_PER_SECOND;
  if (atomic_exchange(&s->state, SERVER_EXITING) == SERVER_EXITING)
    return NULL;
  log_info("Waiting for in-flight requests to complete.");
  live_models_visit(&s->live, stop_model, NULL);
  log_info("Timeout %u: Found %" PRIu64 " in-flight inferences", seconds, inflight(s));
  bool in_time = await_startup_until(s, deadline) && drain(s, deadline);
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
  model_metrics_free(s->metrics); // it visits the models
  if (e != NULL)
    log_error("%s", error_message(e));
  // After a stop that ran out of time a backend may still be at work with all of this.
  if (e != NULL || !live_models_fini(&s->live))
    return;
  if (s->startup != STARTUP_DUE)
    pthread_join(s->startup_thread, NULL);
  load_pool_fini(&s->pool);
  backend_registry_fini(&s->backends);
  timekeeper_free(s->timekeeper);
  model_table_fini(&s->models);
  metric_settings_fini(&s->metric_settings);
  server_options_fini(&s->options);
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

error *server_load_model(server *s, const char *name, const char *config_json)
{
  RETURN_IF_ERROR(check_control(s));
  RETURN_IF_ERROR(check_name(name));
  repository_model found;
  load_operation *operation = NULL;
  error *e = repository_find(&s->repositories, name, &found);
  if (e != NULL && error_get_code(e) != ERROR_UNAVAILABLE) {
    error *cause = e;
    e = not_polled(name, error_message(cause));
    error_free(cause);
  } else if (e == NULL && found.duplicate) {
    e = not_polled(name, "not unique across all model repositories");
  }
  if (e == NULL)
    e = lifecycle_begin_load(s, &found, config_json, NULL, &operation);
  repository_model_fini(&found);
  return e != NULL ? e : lifecycle_await_load(operation);
}

error *server_load_model_files(server *s, const char *name, const char *config_json,
                               const uploaded_file *files, size_t count)
{
  upload *stored;
  load_operation *operation;
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
  const repository_model found = {(char *)name, (char *)upload_repository(stored), false, NULL};
  e = lifecycle_begin_load(s, &found, config_json, stored, &operation);
  upload_unref(stored); // the load has its own
  return e != NULL ? e : lifecycle_await_load(operation);
}

error *server_unload_model(server *s, const char *name)
{
  RETURN_IF_ERROR(check_control(s));
  model_entry *entry = model_table_find(&s->models, name);
  if (entry != NULL)
    lifecycle_unload(s, entry);
  return NULL;
}
