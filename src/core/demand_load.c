// SPDX-License-Identifier: Apache-2.0
// The load of a model that requests wait for: finds its files, then, once there is room, loads it
// as the load endpoint does. On threads of the lookers and the loaders.
#include "core/demand_parts.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/files.h"
#include "core/dependents.h"
#include "core/server_state.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_DEPTH 16 // of directories whose files are counted; links may form a circle

// ---- a model that failed ----

typedef struct demand_failure {
  demand_failures times;
  file_stamp stamp; // of the files that failed to load
  char text[];
} demand_failure;

error *demand_refusal(model_entry *entry, uint64_t now_ns, demand_retry worst)
{
  LOCK_SCOPE(&entry->lock);
  demand_failure *f = entry->demand_failure;
  if (f == NULL || demand_decide_retry(&f->times, now_ns) > worst)
    return NULL;
  f->times.looked_ns = worst == DEMAND_REFUSES ? f->times.looked_ns : now_ns;
  return error_new(ERROR_UNAVAILABLE, "%s", f->text);
}

static bool has_changed(model_entry *entry, file_stamp stamp)
{
  LOCK_SCOPE(&entry->lock);
  return entry->demand_failure != NULL && file_stamp_differs(stamp, entry->demand_failure->stamp);
}

// Remembers a failure, if memory allows, or forgets the last one (NULL). A load that an unload has
// ended is not the model's failure.
static void record(model_entry *entry, const demand_load *l, const error *failure)
{
  size_t size = failure != NULL ? strlen(error_message(failure)) + 1 : 0;
  demand_failure *f = failure != NULL ? calloc(1, sizeof(*f) + size) : NULL;
  LOCK_SCOPE(&entry->lock);
  if (f != NULL && entry->unloads != l->unloads) {
    free(f);
    return;
  }
  unsigned before = entry->demand_failure != NULL ? entry->demand_failure->times.count : 0;
  free(entry->demand_failure);
  entry->demand_failure = f;
  if (f == NULL)
    return;
  uint64_t now = clock_monotonic_ns();
  f->times = (demand_failures){before + 1, now, now};
  f->stamp = l->stamp;
  memcpy(f->text, error_message(failure), size);
}

// ---- looking ----

static uint64_t file_bytes(const file_root *root, const char *name)
{
  int descriptor;
  struct stat status;
  AUTO_ERROR error *e = files_open(root, name, FILE_REGULAR, &descriptor);
  if (e != NULL)
    return 0;
  bool known = fstat(descriptor, &status) == 0 && status.st_size > 0;
  close(descriptor);
  return known ? (uint64_t)status.st_size : 0;
}

// The bytes of all files below. Files that cannot be read are left out: the load will report them.
static uint64_t bytes_below(const file_root *root, int depth)
{
  uint64_t sum = 0;
  string_list names = {0};
  error_free(files_list(root, ".", &names));
  for (size_t i = 0; i < names.count; i++) {
    file_kind kind = FILE_ABSENT;
    AUTO_ROOT file_root dir = FILE_ROOT_CLOSED;
    error_free(files_kind(root, names.items[i], &kind));
    if (kind == FILE_REGULAR)
      sum += file_bytes(root, names.items[i]);
    if (kind != FILE_FOLDER || depth == MAX_DEPTH)
      continue;
    AUTO_ERROR error *e = files_open_dir(root, names.items[i], &dir);
    if (e == NULL)
      sum += bytes_below(&dir, depth + 1);
  }
  string_list_fini(&names);
  return sum;
}

// The memory that the model took when it was loaded last; else the size of its newest version's
// files.
static uint64_t estimate(const repository_dir *dir, model_entry *entry)
{
  uint64_t known = 0;
  if (entry != NULL) {
    LOCK_SCOPE(&entry->lock);
    known = entry->memory_bytes;
  }
  if (known > 0 || dir->version_count == 0)
    return known;
  char name[32];
  AUTO_ROOT file_root newest = FILE_ROOT_CLOSED;
  snprintf(name, sizeof(name), "%" PRId64, dir->versions[dir->version_count - 1].version);
  AUTO_ERROR error *e = files_open_dir(&dir->root, name, &newest);
  return e == NULL ? bytes_below(&newest, 0) : 0;
}

static error *could_not(const char *name, const char *why)
{
  return error_new(ERROR_UNAVAILABLE, "model '%s' could not be loaded: %s", name, why);
}

static error *find(demand_load *l)
{
  repository_set *repositories = &l->demand->server->repositories;
  bool is_model;
  AUTO_ERROR error *e = repository_find_one(repositories, l->name, &l->found);
  if (e == NULL)
    e = repository_is_model(repositories, &l->found, &is_model);
  if (e != NULL && error_get_code(e) == ERROR_NOT_FOUND)
    return model_unknown(ERROR_NOT_FOUND, "'%s' is not found", l->name);
  if (e != NULL)
    return could_not(l->name, error_message(e));
  if (!is_model)
    return model_unknown(ERROR_NOT_FOUND, "'%s' is not found", l->name);
  if (l->found.duplicate)
    return could_not(l->name, "not unique across all model repositories");
  return l->found.fault != NULL ? could_not(l->name, l->found.fault) : NULL;
}

static error *look(demand_load *l)
{
  server *s = l->demand->server;
  repository_dir dir;
  RETURN_IF_ERROR(find(l));
  model_entry *entry = model_table_find(&s->models, l->name);
  error *e = repository_open(l->found.repository, l->found.folder, &s->links, &dir);
  if (e == NULL) {
    l->stamp = dir.stamp;
    l->bytes = estimate(&dir, entry);
  }
  error_free(e); // the load will report it
  repository_dir_fini(&dir);
  if (entry == NULL || has_changed(entry, l->stamp))
    return NULL;
  return demand_refusal(entry, clock_monotonic_ns(), DEMAND_LOADS_CHANGED);
}

void demand_look(load_task *task)
{
  demand_load *l = container_of(task, demand_load, task);
  demand *d = l->demand;
  error *e = look(l);
  if (e != NULL) {
    demand_end_load(l, e);
    return;
  }
  LOCK_SCOPE(&d->lock);
  l->task.run = demand_run_load;
  l->queued_ns = clock_monotonic_ns();
  list_append(&d->queue, &l->node);
  demand_load_set(l, DEMAND_QUEUED);
  pthread_cond_signal(&d->changed);
}

// ---- loading ----

// Notes the memory of the versions that serve; `otherwise` if that is unknown.
static void measure(model_entry *entry, uint64_t otherwise)
{
  LOCK_SCOPE(&entry->lock);
  uint64_t sum = model_entry_bytes(entry);
  entry->memory_bytes = sum > 0 ? sum : otherwise;
}

// Called before the load, and after all waits for it have ended: the model is not evicted between.
static void expect(model_entry *entry, bool begins)
{
  LOCK_SCOPE(&entry->lock);
  assert(begins || entry->expected > 0);
  entry->expected += begins ? 1 : -1;
}

static uint64_t unloads_of(model_entry *entry)
{
  LOCK_SCOPE(&entry->lock);
  return entry->unloads;
}

static error *load(demand_load *l)
{
  model_wish wish = {.found = &l->found};
  dependents_load(l->demand->server, &wish, 1, NULL);
  if (wish.failure == NULL)
    return NULL;
  error *wrapped = could_not(l->name, error_message(wish.failure));
  error_free(wish.failure);
  return wrapped;
}

void demand_run_load(load_task *task)
{
  demand_load *l = container_of(task, demand_load, task);
  demand *d = l->demand;
  model_entry *entry;
  error *e = model_table_add(&d->server->models, l->name, l->found.bare, &entry);
  if (e == NULL) {
    expect(entry, true);
    l->unloads = unloads_of(entry);
    e = load(l);
    if (e == NULL)
      measure(entry, l->bytes);
    record(entry, l, e);
  } else {
    entry = NULL;
  }
  pthread_mutex_lock(&d->lock);
  assert(l->stage == DEMAND_LOADING && d->loading_bytes >= l->bytes);
  d->loading_bytes -= l->bytes;
  *(e == NULL ? &d->loads_done : &d->failures) += 1;
  d->unsettled = true;
  pthread_cond_signal(&d->changed);
  pthread_mutex_unlock(&d->lock);
  demand_end_load(l, e);
  if (entry != NULL)
    expect(entry, false);
}
