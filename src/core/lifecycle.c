// SPDX-License-Identifier: Apache-2.0
// How versions of a model come and go. One thread at a time loads or unloads an entry
// (model_entry_acquire); look-ups take only the entry's lock. The versions that serve are replaced
// when all wanted versions of a new load are in, and stay when one of these fails.
#include "core/lifecycle.h"

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "base/thread.h"
#include "core/ensemble_record.h"
#include "core/load_plan.h"
#include "core/model_instances.h"
#include "core/model_memory.h"
#include "core/routing.h"
#include "core/server_state.h"
#include "core/version_routing.h"
#include "core/warmup.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void free_operation(load_operation *o)
{
  if (o == NULL)
    return;
  for (size_t i = 0; i < o->job_count; i++)
    error_free(o->jobs[i].failure);
  free(o->jobs);
  free(o->dropped);
  free(o->wanted);
  config_free(o->config);
  version_routing_free(o->routing);
  source_map_fini(&o->places);
  free(o->repository);
  free(o->folder);
  free(o->dir);
  agent_chain_unref(o->agents);
  upload_unref(o->upload);
  error_free(o->outcome);
  pthread_cond_destroy(&o->ended);
  free(o);
}

// ---- the end of a load ----

static bool is_wanted(const load_operation *o, int64_t version)
{
  for (size_t i = 0; i < o->wanted_count; i++)
    if (o->wanted[i] == version)
      return true;
  return false;
}

static void drop_later(load_operation *o, model *m)
{
  if (m != NULL)
    o->dropped[o->dropped_count++] = m;
}

static void remove_version(model_entry *entry, size_t at)
{
  free(entry->versions[at].reason);
  memmove(&entry->versions[at], &entry->versions[at + 1],
          (entry->version_count - at - 1) * sizeof(version_slot));
  entry->version_count--;
}

// Versions that are no longer wanted: those that serve leave, those that failed are forgotten, and
// those that have left stay listed, as in Triton.
static void retire_unwanted(load_operation *o)
{
  model_entry *entry = o->entry;
  for (size_t i = entry->version_count; i-- > 0;) {
    version_slot *v = &entry->versions[i];
    if (is_wanted(o, v->version))
      continue;
    if (v->state == VERSION_READY)
      drop_later(o, version_slot_retire(v));
    else if (v->state == VERSION_UNAVAILABLE && !version_slot_is_excused(v))
      remove_version(entry, i);
  }
}

static void publish(load_operation *o)
{
  model_entry *entry = o->entry;
  assert(lock_is_held(&entry->lock) && entry->busy && o->config != NULL);
  retire_unwanted(o);
  for (size_t i = 0; i < o->job_count; i++) {
    load_job *job = &o->jobs[i];
    version_slot *v = model_entry_version(entry, job->version);
    v->stamp = job->stamp;
    drop_later(o, job->serving);
    if (job->serving != NULL)
      continue;
    assert(job->loaded != NULL && (v->ready != NULL) == (v->state == VERSION_READY));
    drop_later(o, v->ready);
    v->ready = job->loaded;
    version_slot_set(v, VERSION_READY, NULL);
  }
  entry->stamp = o->stamp;
  config_free(entry->config);
  entry->config = o->config;
  o->config = NULL;
  routing_loaded(o->server, entry, &o->routing);
}

// Drops the versions that came up; what served before goes on.
static void discard(load_operation *o)
{
  assert(lock_is_held(&o->entry->lock) && o->entry->busy);
  for (size_t i = 0; i < o->job_count; i++) {
    load_job *job = &o->jobs[i];
    version_slot *v = model_entry_version(o->entry, job->version);
    drop_later(o, job->loaded);
    drop_later(o, job->serving);
    if (v->state == VERSION_LOADING) { // it did not serve before the load
      version_slot_set(v, VERSION_UNLOADING, NULL);
      v->leaving = job->loaded;
    }
  }
}

// NULL when every version came up.
static error *failure_of(const load_operation *o)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  if (o->entry->unloads != o->unloads) {
    buffer_append_text(&text, "Newer operation has been applied to the model lifecycle, current "
                              "load operation is out-dated.");
  } else {
    for (size_t i = 0; i < o->job_count; i++)
      if (o->jobs[i].failure != NULL)
        buffer_append_format(
            &text, "version %" PRId64 " is at UNAVAILABLE state: %s: %s;", o->jobs[i].version,
            error_code_text(error_get_code(o->jobs[i].failure)), error_message(o->jobs[i].failure));
  }
  if (text.size == 0 && !text.failed)
    return NULL;
  return error_new(ERROR_INVALID_ARG, "load failed for model '%s': %.*s\n", o->entry->name,
                   (int)text.size, text.data != NULL ? text.data : "");
}

// Ends the versions that served before, or came up in vain. The entry's lock is not held, as agents
// and backends may take long.
static void drop_models(load_operation *o)
{
  for (size_t i = 0; i < o->dropped_count; i++)
    agent_chain_unload(o->dropped[i]->agents); // does nothing for what never served
  agent_chain_loaded(o->agents, o->outcome == NULL);
  for (size_t i = 0; i < o->dropped_count; i++)
    model_unref(o->dropped[i]);
  agent_chain_unref(o->agents);
  o->agents = NULL;
}

// The last job is over: publishes or discards, and wakes the waiting thread.
static void complete(load_operation *o)
{
  model_entry *entry = o->entry;
  pthread_mutex_lock(&entry->lock);
  o->outcome = failure_of(o);
  if (o->outcome == NULL)
    publish(o);
  else
    discard(o);
  pthread_mutex_unlock(&entry->lock);
  if (o->outcome == NULL && o->dropped_count > 0)
    routing_cancel_shadows(entry);
  drop_models(o);
  if (o->outcome == NULL)
    log_info("successfully loaded '%s'", entry->name);
  else
    log_info("failed to load '%s'", entry->name);
  source_map_fini(&o->places); // the operation may be awaited much later
  model_entry_release(entry);
  server *s = o->server;
  void (*tell)(void *) = o->tell;
  void *context = o->context;
  pthread_mutex_lock(&s->lock);
  o->done = true; // from here on the waiting thread may free it
  pthread_cond_broadcast(&o->ended);
  pthread_mutex_unlock(&s->lock);
  if (tell != NULL)
    tell(context);
}

static void drop_remaining(load_operation *o)
{
  size_t before = atomic_fetch_sub_explicit(&o->remaining, 1, memory_order_acq_rel);
  assert(before > 0);
  if (before == 1)
    complete(o);
}

// ---- one version, on a load thread ----

static bool is_still_wanted(const void *job_pointer)
{
  const load_operation *o = ((const load_job *)job_pointer)->operation;
  if (server_state_of(o->server) == SERVER_EXITING)
    return false;
  LOCK_SCOPE(&o->entry->lock);
  return o->entry->unloads == o->unloads;
}

// The model is among the live ones already, so that the server's end waits for its requests.
static error *warm_up(load_job *job)
{
  model *m = job->loaded;
  error *e = warmup_instances(m, m->instances->items, m->instances->count,
                              (warmup_wish){is_still_wanted, job});
  if (e != NULL) {
    job->loaded = NULL;
    model_unref(m);
  }
  return e;
}

static error *load_version(load_job *job)
{
  load_operation *o = job->operation;
  server *s = o->server;
  if (server_state_of(s) == SERVER_EXITING)
    return error_new(ERROR_UNAVAILABLE, "Server exiting");
  model_source source = {
      .id = o->entry->name,
      .name = o->entry->bare,
      .version = job->version,
      .file_bytes = job->stamp.bytes,
      .repository = o->repository,
      .folder = o->folder,
      .dir = o->dir,
      .links = load_links(o),
      .upload = o->upload,
      .agents = o->agents,
      .places = &o->places,
  };
  RETURN_IF_ERROR(config_copy(o->config, &source.config_owned));
  uint64_t begin = clock_monotonic_ns();
  error *e = model_load(&s->environment, &source, &job->loaded);
  config_free(source.config_owned); // taken by then, unless it failed early
  if (e == NULL) {
    live_models_add(&s->live, job->loaded);
    e = warm_up(job);
  }
  if (e == NULL)
    model_memory_update(job->loaded);
  if (e == NULL)
    atomic_store_explicit(&job->loaded->load_ns, clock_monotonic_ns() - begin,
                          memory_order_relaxed);
  return e;
}

static void record_version_failure(load_job *job)
{
  model_entry *entry = job->operation->entry;
  const char *code = error_code_text(error_get_code(job->failure));
  log_error("failed to load '%s' version %" PRId64 ": %s: %s", entry->name, job->version, code,
            error_message(job->failure));
  AUTO_BUFFER buffer reason = BUFFER_EMPTY;
  buffer_append_format(&reason, "%s: %s", code, error_message(job->failure));
  char *text AUTO_FREE = buffer_take_text(&reason);
  LOCK_SCOPE(&entry->lock);
  version_slot *v = model_entry_version(entry, job->version);
  if (v->state == VERSION_LOADING)
    version_slot_set(v, VERSION_UNAVAILABLE, text);
}

static error *warm_up_added(model *m, instance *const *instances, size_t count)
{
  return warmup_instances(m, instances, count, (warmup_wish){0});
}

static void run_job(load_task *task)
{
  load_job *job = container_of(task, load_job, task);
  load_operation *o = job->operation;
  unsigned attempts = o->server->options.model_load_retry_count + 1;
  for (unsigned i = 0; i == 0 || (i < attempts && job->failure != NULL); i++) {
    error_free(job->failure);
    job->failure = job->serving == NULL
                       ? load_version(job)
                       : model_update_instances(job->serving, o->config, warm_up_added);
  }
  if (job->failure != NULL)
    record_version_failure(job);
  drop_remaining(o);
}

// ---- the beginning of a load ----

static void note_wish(load_operation *o, const load_wish *wish)
{
  LOCK_SCOPE(&o->entry->lock);
  o->entry->by_name = o->entry->by_name || wish->by_name;
  if (wish->again && o->upload == NULL && o->entry->ensemble != NULL)
    o->upload = upload_ref(o->entry->ensemble->files);
}

error *lifecycle_begin_load(server *s, const load_wish *wish, load_operation **result)
{
  model_entry *entry;
  const repository_model *found = wish->found;
  *result = NULL;
  RETURN_IF_ERROR(model_table_add(&s->models, found->name, found->bare, &entry));
  load_operation *o = calloc(1, sizeof(*o));
  if (o == NULL || (o->repository = strdup(found->repository)) == NULL ||
      (o->folder = strdup(found->folder)) == NULL) {
    free(o != NULL ? o->repository : NULL);
    free(o);
    return error_no_memory();
  }
  bool nothing;
  pthread_cond_init(&o->ended, NULL);
  o->server = s;
  o->entry = entry;
  o->anew = wish->again || wish->anew;
  o->tell = wish->ended;
  o->context = wish->context;
  o->upload = upload_ref(wish->files);
  model_entry_acquire(entry);
  note_wish(o, wish);
  error *e = load_plan(o, wish, &nothing);
  if (e != NULL || nothing) {
    model_entry_release(entry);
    free_operation(o);
    return e;
  }
  atomic_init(&o->remaining, o->job_count + 1);
  size_t count = o->job_count;
  for (size_t i = 0; i < count; i++) {
    if (o->jobs[i].serving == NULL)
      log_info("loading: %s:%" PRId64, entry->name, o->jobs[i].version);
    o->jobs[i].task.run = run_job;
    load_pool_add(&s->pool, &o->jobs[i].task);
  }
  drop_remaining(o);
  *result = o;
  return NULL;
}

bool lifecycle_load_is_done(const load_operation *o)
{
  LOCK_SCOPE(&o->server->lock);
  return o->done;
}

error *lifecycle_await_load(load_operation *o)
{
  if (o == NULL)
    return NULL;
  server *s = o->server;
  pthread_mutex_lock(&s->lock);
  while (!o->done)
    pthread_cond_wait(&o->ended, &s->lock);
  pthread_mutex_unlock(&s->lock);
  error *outcome = o->outcome;
  o->outcome = NULL;
  free_operation(o);
  return outcome;
}
