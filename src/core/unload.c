// SPDX-License-Identifier: Apache-2.0
// Unloads: the versions of a model leave, and still serve the requests that have them. One thread
// at a time has the entry (model_entry_acquire).
#include "core/unload.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/thread.h"
#include "core/lifecycle.h"
#include "core/routing.h"
#include "core/server_state.h"
#include "core/version_routing.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

// Takes all served versions out of the entry at once; versions that failed are excused.
static void retire_all(model_entry *entry)
{
  assert(lock_is_held(&entry->lock) && entry->busy);
  for (size_t i = 0; i < entry->version_count; i++) {
    version_slot *v = &entry->versions[i];
    if (v->state == VERSION_READY)
      v->retired = version_slot_retire(v);
    else if (v->state == VERSION_UNAVAILABLE)
      version_slot_set(v, VERSION_UNAVAILABLE, "unloaded");
  }
  model_entry_forget_failure(entry);
  entry->stamp = (file_stamp){0};
  config_free(entry->config);
  entry->config = NULL;
  routing_unloaded(entry);
}

// The lock is not held while a model goes: its backend may take long, and lifecycle_model_gone
// takes the lock.
static void drop_retired(model_entry *entry)
{
  for (size_t i = 0; i < entry->version_count; i++) {
    pthread_mutex_lock(&entry->lock);
    model *m = entry->versions[i].retired;
    entry->versions[i].retired = NULL;
    pthread_mutex_unlock(&entry->lock);
    if (m == NULL)
      continue;
    agent_chain_unload(m->agents);
    model_unref(m);
  }
}

void unload_versions(model_entry *entry)
{
  pthread_mutex_lock(&entry->lock);
  retire_all(entry);
  pthread_mutex_unlock(&entry->lock);
  routing_cancel_shadows(entry);
  drop_retired(entry);
}

// Nobody asks for the model any more.
static void forget(server *s, model_entry *entry)
{
  pthread_mutex_lock(&entry->lock);
  entry->by_name = false;
  pthread_mutex_unlock(&entry->lock);
  model_table_set_ensemble(&s->models, entry, NULL);
}

void lifecycle_unload(server *s, model_entry *entry)
{
  pthread_mutex_lock(&entry->lock);
  entry->unloads++;
  pthread_mutex_unlock(&entry->lock);
  model_entry_acquire(entry);
  unload_versions(entry);
  forget(s, entry);
  model_entry_release(entry);
}

typedef struct live_count {
  const char *name;
  size_t count;
} live_count;

static void count_live(void *context, model *m)
{
  live_count *c = context;
  c->count += strcmp(m->id, c->name) == 0 && refcount_peek(&m->target.references) > 0;
}

// Look-ups take references with the lock held, so none comes in between. A replaced version that is
// still in use keeps the model, and for an ensemble the models of its steps, from being idle.
static bool retire_idle(server *s, model_entry *entry)
{
  size_t ready = 0;
  live_count live = {entry->name, 0};
  live_models_visit(&s->live, count_live, &live);
  LOCK_SCOPE(&entry->lock);
  for (size_t i = 0; i < entry->version_count; i++)
    ready += entry->versions[i].state == VERSION_READY;
  bool idle = model_entry_is_idle(entry) && live.count <= ready;
  if (idle)
    retire_all(entry);
  return idle;
}

bool lifecycle_unload_idle(server *s, model_entry *entry, unload_condition *may_go)
{
  if (!model_entry_try_acquire(entry))
    return false;
  bool idle = may_go(s, entry) && retire_idle(s, entry);
  drop_retired(entry);
  if (idle)
    forget(s, entry);
  model_entry_release(entry);
  return idle;
}

void lifecycle_model_gone(void *server_pointer, const char *name, int64_t version,
                          const model *identity, bool was_loaded)
{
  server *s = server_pointer;
  if (was_loaded)
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
