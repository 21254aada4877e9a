// How versions of a model come and go. An entry's load or unload is done by one thread at a time
// (model_entry_acquire); look-ups see the entry's lock only. What serves is replaced when all
// wanted versions of the new load are in, and stays when one fails.
#include "core/lifecycle.h"

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "core/server_state.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// Of what came with the request, files or a configuration: any directory is newer, so the next
// plain load goes back to what the directory says.
static const file_stamp NEVER_CHANGED = {0};

// The load of one version.
typedef struct load_job {
  load_task task;
  load_operation *operation;
  int64_t version;
  file_stamp stamp;
  model *loaded;  // one reference; NULL when it failed
  error *failure; // NULL when it succeeded
} load_job;

struct load_operation {
  server *server;
  model_entry *entry; // acquired until the load is done
  char *repository;
  char *dir;
  upload *upload;                 // what was sent instead of a repository's files, or NULL
  Inference__ModelConfig *config; // what was read; each version is loaded from a copy
  file_stamp stamp;
  uint64_t unloads; // entry->unloads when it began
  int64_t *wanted;  // all versions that shall be served
  size_t wanted_count;
  load_job *jobs; // those of them that are not served yet as they are
  size_t job_count;
  _Atomic size_t remaining; // jobs that run, and one of whoever begins
  model **dropped;          // by its end, once the entry's lock is free; room for all versions
  size_t dropped_count;
  bool done;            // guarded by server->lock
  pthread_cond_t ended; // done; of its own, so that it wakes nobody else
  error *outcome;
};

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
  free(o->repository);
  free(o->dir);
  upload_unref(o->upload);
  error_free(o->outcome);
  pthread_cond_destroy(&o->ended);
  free(o);
}

static void forget_failure(model_entry *entry)
{
  assert(lock_is_held(&entry->lock));
  free(entry->failure);
  entry->failure = NULL;
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

// Versions that are not wanted any more: those that serve leave, those that failed are forgotten.
static void retire_unwanted(load_operation *o)
{
  model_entry *entry = o->entry;
  for (size_t i = entry->version_count; i-- > 0;) {
    version_slot *v = &entry->versions[i];
    if (is_wanted(o, v->version))
      continue;
    if (v->state == VERSION_READY)
      drop_later(o, version_slot_retire(v));
    else if (v->state == VERSION_UNAVAILABLE)
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
    assert(job->loaded != NULL && (v->ready != NULL) == (v->state == VERSION_READY));
    drop_later(o, v->ready);
    v->ready = job->loaded;
    v->stamp = job->stamp;
    version_slot_set(v, VERSION_READY, NULL);
  }
  entry->stamp = o->stamp;
  config_free(entry->config);
  entry->config = o->config;
  o->config = NULL;
}

// Versions that came up are dropped again; what served before goes on.
static void discard(load_operation *o)
{
  assert(lock_is_held(&o->entry->lock) && o->entry->busy);
  for (size_t i = 0; i < o->job_count; i++) {
    load_job *job = &o->jobs[i];
    version_slot *v = model_entry_version(o->entry, job->version);
    drop_later(o, job->loaded);
    if (v->state == VERSION_LOADING) { // it did not serve before
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

// The last job is over: publishes or discards, and wakes who waits.
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
  for (size_t i = 0; i < o->dropped_count; i++)
    model_unref(o->dropped[i]);
  if (o->outcome == NULL)
    log_info("successfully loaded '%s'", entry->name);
  else
    log_info("failed to load '%s'", entry->name);
  model_entry_release(entry);
  server *s = o->server;
  LOCK_SCOPE(&s->lock);
  o->done = true; // whoever waits may free it from here on
  pthread_cond_broadcast(&o->ended);
}

static void drop_remaining(load_operation *o)
{
  size_t before = atomic_fetch_sub_explicit(&o->remaining, 1, memory_order_acq_rel);
  assert(before > 0);
  if (before == 1)
    complete(o);
}

// Nobody trustworthy wrote what came with a request.
static const file_policy *links_of(const server *s, const upload *files)
{
  return files == NULL ? &s->links : &file_policy_no_links;
}

// ---- one version, on a load thread ----

static error *load_version(load_job *job)
{
  load_operation *o = job->operation;
  server *s = o->server;
  if (server_state_of(s) == SERVER_EXITING)
    return error_new(ERROR_UNAVAILABLE, "Server exiting");
  model_source source = {
      .name = o->entry->name,
      .version = job->version,
      .repository = o->repository,
      .dir = o->dir,
      .links = links_of(o->server, o->upload),
      .upload = o->upload,
  };
  RETURN_IF_ERROR(config_copy(o->config, &source.config_owned));
  uint64_t begin = clock_monotonic_ns();
  error *e = model_load(&s->environment, &source, &job->loaded);
  config_free(source.config_owned); // taken by then, unless it failed early
  if (e == NULL)
    live_models_add(&s->live, job->loaded, (double)(clock_monotonic_ns() - begin) / 1e9);
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

static void run_job(load_task *task)
{
  load_job *job = container_of(task, load_job, task);
  load_operation *o = job->operation;
  unsigned attempts = o->server->options.model_load_retry_count + 1;
  for (unsigned i = 0; i < attempts && job->loaded == NULL; i++) {
    error_free(job->failure);
    job->failure = load_version(job);
  }
  if (job->failure != NULL)
    record_version_failure(job);
  drop_remaining(o);
}

// ---- the beginning of a load ----

// The operator's own configuration says which paths are the operator's; one that came with the
// request or cannot be read says none.
static error *check_request_paths(const server *s, const repository_dir *dir,
                                  const Inference__ModelConfig *config)
{
  AUTO_CONFIG Inference__ModelConfig *own = NULL;
  if (dir->root.policy->links == FILE_LINKS_NONE)
    return config_check_request_paths(config, NULL);
  AUTO_ERROR error *e = repository_read_config(dir, s->options.model_config_name, true, &own);
  return config_check_request_paths(config, e == NULL ? own : NULL);
}

// Reads the configuration and completes what does not need the model itself.
static error *read_config(const server *s, const char *name, const repository_dir *dir,
                          const char *config_json, Inference__ModelConfig **result)
{
  AUTO_CONFIG Inference__ModelConfig *config = NULL;
  if (config_json != NULL) {
    error *e = config_read_json(slice_of(config_json), &config);
    if (e != NULL)
      return error_wrap(e, "Invalid config override");
  } else {
    RETURN_IF_ERROR(repository_read_config(dir, s->options.model_config_name,
                                           !s->options.strict_model_config, &config));
  }
  RETURN_IF_ERROR(config_set_defaults(config, name, &dir->root));
  RETURN_IF_ERROR(config_check_name(config, name));
  RETURN_IF_ERROR(config_validate_model(config));
  if (config_json != NULL || dir->root.policy->links == FILE_LINKS_NONE)
    RETURN_IF_ERROR(check_request_paths(s, dir, config));
  if (s->options.strict_model_config)
    RETURN_IF_ERROR(config_validate_tensors(config));
  *result = config;
  config = NULL;
  return NULL;
}

static error *select_versions(load_operation *o, const repository_dir *dir)
{
  int64_t *available AUTO_FREE = calloc(dir->version_count + 1, sizeof(int64_t));
  o->wanted = calloc(dir->version_count + 1, sizeof(int64_t));
  o->jobs = calloc(dir->version_count + 1, sizeof(load_job));
  if (available == NULL || o->wanted == NULL || o->jobs == NULL)
    return error_no_memory();
  for (size_t i = 0; i < dir->version_count; i++)
    available[i] = dir->versions[i].version;
  config_select_versions(o->config, available, dir->version_count, o->wanted, &o->wanted_count);
  if (o->wanted_count > 0)
    return NULL;
  return error_new(ERROR_INVALID_ARG,
                   "load failed for model '%s': at least one version must be available under the "
                   "version policy of model '%s'\n",
                   o->entry->name, o->entry->name);
}

static file_stamp stamp_of(const repository_dir *dir, int64_t version)
{
  for (size_t i = 0; i < dir->version_count; i++)
    if (dir->versions[i].version == version)
      return dir->versions[i].stamp;
  return NEVER_CHANGED;
}

static bool add_wanted_versions(load_operation *o)
{
  for (size_t i = 0; i < o->wanted_count; i++)
    if (model_entry_add_version(o->entry, o->wanted[i]) == NULL)
      return false;
  return true;
}

// Makes a job for each wanted version but those that serve unchanged files with an unchanged
// configuration.
static error *make_jobs(load_operation *o, const repository_dir *dir)
{
  model_entry *entry = o->entry;
  LOCK_SCOPE(&entry->lock);
  o->dropped = calloc(entry->version_count + o->wanted_count, 2 * sizeof(model *));
  if (o->dropped == NULL || !add_wanted_versions(o))
    return error_no_memory();
  bool same_config = entry->config != NULL && config_equal_but_policy(entry->config, o->config);
  for (size_t i = 0; i < o->wanted_count; i++) {
    version_slot *v = model_entry_version(entry, o->wanted[i]);
    file_stamp stamp = stamp_of(dir, o->wanted[i]);
    if (v->state == VERSION_READY && same_config && !file_stamp_is_newer(stamp, v->stamp))
      continue;
    o->jobs[o->job_count++] = (load_job){.task.run = run_job,
                                         .operation = o,
                                         .version = o->wanted[i],
                                         .stamp = o->upload == NULL ? stamp : NEVER_CHANGED};
    if (v->state != VERSION_READY)
      version_slot_set(v, VERSION_LOADING, NULL);
  }
  forget_failure(entry);
  o->unloads = entry->unloads;
  return NULL;
}

// A model without any version says why it has none. As in Triton, a directory or configuration that
// cannot be read does not count against the server's readiness.
static void record_failure(model_entry *entry, const char *reason, bool counts)
{
  LOCK_SCOPE(&entry->lock);
  forget_failure(entry);
  for (size_t i = 0; i < entry->version_count; i++)
    if (entry->versions[i].state == VERSION_READY)
      return;
  entry->failure = strdup(reason);
  entry->failure_counts = counts;
}

static void record_no_version(model_entry *entry, const char *reason)
{
  log_error("failed to load model '%s': at least one version must be available under the version "
            "policy of model '%s'",
            entry->name, entry->name);
  record_failure(entry, reason, true);
}

// In Triton's words. A configuration that came with the request is its client's mistake.
static error *poll_failure(const char *name, bool of_request, error *cause_owned)
{
  error_code code = of_request && error_get_code(cause_owned) == ERROR_INVALID_ARG
                        ? ERROR_INVALID_ARG
                        : ERROR_INTERNAL;
  error *e = error_new(code, "failed to load '%s', failed to poll from model repository: %s", name,
                       error_message(cause_owned));
  error_free(cause_owned);
  return e;
}

// What a model lacks may be behind a link that is not followed.
static error *with_refused(const repository_dir *dir, error *cause_owned)
{
  if (cause_owned == NULL || dir->refused == NULL)
    return cause_owned;
  error *e = error_new(error_get_code(cause_owned), "%s (a link is not followed: %s)",
                       error_message(cause_owned), error_message(dir->refused));
  error_free(cause_owned);
  return e;
}

static error *plan(load_operation *o, const repository_model *found, const char *config_json,
                   bool *unchanged)
{
  repository_dir dir;
  error *e = repository_open(found->repository, found->name, links_of(o->server, o->upload), &dir);
  *unchanged = e == NULL && config_json == NULL && o->entry->stamp.newest_ns != 0 &&
               !file_stamp_is_newer(dir.stamp, o->entry->stamp);
  bool is_open = e == NULL;
  if (is_open && !*unchanged)
    e = with_refused(&dir, read_config(o->server, found->name, &dir, config_json, &o->config));
  if (e != NULL) {
    log_error("Poll failed for model directory '%s': %s", found->name, error_message(e));
    record_failure(o->entry, error_message(e), false);
    e = poll_failure(found->name, is_open && config_json != NULL, e);
  } else if (!*unchanged) {
    o->stamp = config_json != NULL ? NEVER_CHANGED : dir.stamp;
    o->dir = dir.path;
    dir.path = NULL;
    e = select_versions(o, &dir);
    if (e != NULL)
      record_no_version(o->entry, error_message(e));
    else {
      config_warn_of_missing(o->config);
      e = make_jobs(o, &dir);
    }
  }
  repository_dir_fini(&dir);
  return e;
}

error *lifecycle_begin_load(server *s, const repository_model *found, const char *config_json,
                            upload *files, load_operation **result)
{
  model_entry *entry;
  *result = NULL;
  RETURN_IF_ERROR(model_table_add(&s->models, found->name, &entry));
  load_operation *o = calloc(1, sizeof(*o));
  if (o == NULL || (o->repository = strdup(found->repository)) == NULL) {
    free(o);
    return error_no_memory();
  }
  bool unchanged;
  pthread_cond_init(&o->ended, NULL);
  o->server = s;
  o->entry = entry;
  o->upload = upload_ref(files);
  model_entry_acquire(entry);
  error *e = plan(o, found, config_json, &unchanged);
  if (e != NULL || unchanged) {
    model_entry_release(entry);
    free_operation(o);
    return e;
  }
  atomic_init(&o->remaining, o->job_count + 1);
  size_t count = o->job_count;
  for (size_t i = 0; i < count; i++) {
    log_info("loading: %s:%" PRId64, entry->name, o->jobs[i].version);
    load_pool_add(&s->pool, &o->jobs[i].task);
  }
  drop_remaining(o);
  *result = o;
  return NULL;
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

// ---- unloading ----

// Takes the served versions out of the entry at once; those that failed are excused.
static void retire_all(model_entry *entry)
{
  LOCK_SCOPE(&entry->lock);
  for (size_t i = 0; i < entry->version_count; i++) {
    version_slot *v = &entry->versions[i];
    if (v->state == VERSION_READY)
      v->retired = version_slot_retire(v);
    else if (v->state == VERSION_UNAVAILABLE)
      version_slot_set(v, VERSION_UNAVAILABLE, "unloaded");
  }
  forget_failure(entry);
  entry->stamp = NEVER_CHANGED;
  config_free(entry->config);
  entry->config = NULL;
}

// The lock is not held while a model goes: its backend may take long, and lifecycle_model_gone
// wants it.
static void drop_retired(model_entry *entry)
{
  for (size_t i = 0; i < entry->version_count; i++) {
    pthread_mutex_lock(&entry->lock);
    model *m = entry->versions[i].retired;
    entry->versions[i].retired = NULL;
    pthread_mutex_unlock(&entry->lock);
    if (m != NULL)
      model_unref(m);
  }
}

void lifecycle_unload(server *s, model_entry *entry)
{
  (void)s;
  pthread_mutex_lock(&entry->lock);
  entry->unloads++;
  pthread_mutex_unlock(&entry->lock);
  model_entry_acquire(entry);
  retire_all(entry);
  drop_retired(entry);
  model_entry_release(entry);
}

void lifecycle_model_gone(void *server_pointer, const char *name, int64_t version,
                          const model *identity)
{
  server *s = server_pointer;
  log_info("successfully unloaded '%s' version %" PRId64, name, version);
  model_entry *entry = model_table_find(&s->models, name);
  if (entry == NULL)
    return;
  LOCK_SCOPE(&entry->lock);
  version_slot *v = model_entry_version(entry, version);
  if (v != NULL && v->state == VERSION_UNLOADING && v->leaving == identity)
    version_slot_set(v, VERSION_UNAVAILABLE, "unloaded");
}

void lifecycle_unload_all(server *s)
{
  model_entry *entry = NULL;
  while ((entry = model_table_next(&s->models, entry)) != NULL)
    lifecycle_unload(s, entry);
}

// ---- start-up ----

// Whether this model is to be loaded at the start.
static bool is_startup_model(const server *s, const char *name)
{
  return s->options.model_control_mode != TRITONSERVER_MODEL_CONTROL_EXPLICIT ||
         string_list_contains(&s->options.startup_models, "*") ||
         string_list_contains(&s->options.startup_models, name);
}

static void tell_absent(const server *s, const char *name)
{
  repository_model found;
  AUTO_ERROR error *why = repository_find(&s->repositories, name, &found);
  repository_model_fini(&found);
  if (why != NULL)
    log_error("failed to poll model '%s': %s.", name, error_message(why));
}

// Logs start-up models that are in no repository. False when there is one.
static bool all_are_found(const server *s, const repository_listing *listing)
{
  bool all = true;
  if (s->options.model_control_mode != TRITONSERVER_MODEL_CONTROL_EXPLICIT)
    return true;
  for (size_t i = 0; i < s->options.startup_models.count; i++) {
    const char *name = s->options.startup_models.items[i];
    bool found = strcmp(name, "*") == 0;
    for (size_t k = 0; !found && k < listing->count; k++)
      found = strcmp(listing->items[k].name, name) == 0;
    if (!found)
      tell_absent(s, name);
    all = all && found;
  }
  return all;
}

// One model's load at the start; a thread of the pool begins it.
typedef struct startup_load {
  load_task task;
  server *server;
  const repository_model *found;
  load_operation *operation; // NULL: there is nothing to wait for
  bool failed;
  bool no_model; // and not failed
  size_t *left;  // loads that have not begun; guarded by server->lock
} startup_load;

// Whether the directory was never meant to be one: .git, lost+found, scripts. Who asks for it by
// name gets the reason why it does not load.
static bool is_no_model(const startup_load *l)
{
  const server *s = l->server;
  if (string_list_contains(&s->options.startup_models, l->found->name))
    return false;
  bool is_model;
  AUTO_ERROR error *e = repository_is_model(&s->repositories, l->found, &is_model);
  if (e != NULL || is_model)
    return false;
  log_info(
      "directory '%s' of '%s' is no model: it has no config.pbtxt, no version and no file model.*",
      l->found->name, l->found->repository);
  return true;
}

static void begin_startup_load(load_task *task)
{
  startup_load *l = container_of(task, startup_load, task);
  AUTO_ERROR error *e = NULL;
  l->no_model = is_no_model(l);
  if (!l->no_model && l->found->duplicate)
    log_error("failed to poll model '%s': not unique across all model repositories",
              l->found->name);
  else if (!l->no_model)
    e = lifecycle_begin_load(l->server, l->found, NULL, NULL, &l->operation); // logs a failure
  l->failed = !l->no_model && (l->found->duplicate || e != NULL);
  LOCK_SCOPE(&l->server->lock);
  if (--*l->left == 0)
    pthread_cond_broadcast(&l->server->changed);
}

// Repositories in which no directory is a model are not the right ones.
static bool has_models(const startup_load *loads, size_t count)
{
  for (size_t i = 0; i < count; i++)
    if (!loads[i].no_model)
      return true;
  if (count > 0)
    log_error("no directory of the model repositories is a model");
  return count == 0;
}

// False when one failed.
static bool load_all(server *s, startup_load *loads, size_t count)
{
  bool all_in = true;
  size_t left = count;
  for (size_t i = 0; i < count; i++) {
    loads[i].left = &left;
    load_pool_add(&s->pool, &loads[i].task);
  }
  pthread_mutex_lock(&s->lock);
  while (left > 0)
    pthread_cond_wait(&s->changed, &s->lock);
  pthread_mutex_unlock(&s->lock);
  for (size_t i = count; i-- > 0;) { // the last first: few of the others make this thread wait then
    AUTO_ERROR error *failure = lifecycle_await_load(loads[i].operation);
    all_in = all_in && !loads[i].failed && failure == NULL;
  }
  return has_models(loads, count) && all_in;
}

error *lifecycle_load_startup_models(server *s)
{
  repository_listing listing;
  error *e = repository_scan(&s->repositories, &listing);
  startup_load *loads = e == NULL ? calloc(listing.count + 1, sizeof(*loads)) : NULL;
  if (e == NULL && loads == NULL)
    e = error_no_memory();
  bool all_in = e == NULL && all_are_found(s, &listing);
  size_t count = 0;
  for (size_t i = 0; loads != NULL && i < listing.count; i++)
    if (is_startup_model(s, listing.items[i].name))
      loads[count++] =
          (startup_load){.task.run = begin_startup_load, .server = s, .found = &listing.items[i]};
  all_in = load_all(s, loads, count) && all_in;
  free(loads);
  repository_listing_fini(&listing);
  if (e == NULL && !all_in)
    e = error_new(ERROR_INTERNAL, "failed to load all models");
  return e;
}
