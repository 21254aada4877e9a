// SPDX-License-Identifier: Apache-2.0
// Room for models: the keeper's thread lets loads begin in order of arrival when the budget has
// room for them, and evicts models that nobody uses.
#include "core/demand_parts.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "core/dependents.h"
#include "core/ensemble_record.h"
#include "core/ensemble_rules.h"
#include "core/server_state.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_LOOK_NS   UINT64_C(2000000)   // between two looks while a load waits for room
#define SETTLE_LOOK_NS UINT64_C(100000000) // and while more is loaded than the budget has

// ---- what is there ----

typedef struct room {
  demand_model *models;
  model_entry **entries; // of the same models
  size_t count;
} room;

static void room_fini(room *r)
{
  free(r->models);
  free(r->entries);
}

// Files that came with a request are in no repository: the model could not be loaded again.
static bool is_pinned(const model_entry *entry)
{
  const char *value =
      entry->config != NULL ? config_parameter(entry->config, DEMAND_PIN_PARAMETER) : NULL;
  return (value != NULL && strcmp(value, "true") == 0) || entry->stamp.entries == 0;
}

// False when the model takes no memory.
static bool look_at(model_entry *entry, demand_model *m)
{
  bool ready = false, leaving = false;
  LOCK_SCOPE(&entry->lock);
  *m = (demand_model){0};
  for (size_t i = 0; i < entry->version_count; i++) {
    const version_slot *v = &entry->versions[i];
    leaving = leaving || v->state == VERSION_UNLOADING;
    if (v->state != VERSION_READY)
      continue;
    ready = true;
    uint64_t used = atomic_load_explicit(&v->ready->used_ns, memory_order_relaxed);
    m->used_ns = used > m->used_ns ? used : m->used_ns;
  }
  if (!ready && !leaving)
    return false;
  uint64_t measured = model_entry_bytes(entry);
  if (measured > 0)
    entry->memory_bytes = measured;
  m->bytes = entry->memory_bytes;
  m->leaving = !ready;
  m->in_use = entry->busy || !model_entry_is_idle(entry);
  m->pinned = ready && is_pinned(entry);
  return true;
}

// False when memory is short.
static bool gather(demand *d, room *r)
{
  model_table *table = &d->server->models;
  size_t room_count = atomic_load_explicit(&table->count, memory_order_relaxed);
  *r = (room){.models = calloc(room_count + 1, sizeof(*r->models)),
              .entries = calloc(room_count + 1, sizeof(*r->entries))};
  if (r->models == NULL || r->entries == NULL)
    return false;
  model_entry *entry = NULL;
  while (r->count < room_count && (entry = model_table_next(table, entry)) != NULL)
    if (look_at(entry, &r->models[r->count]))
      r->entries[r->count++] = entry;
  return true;
}

static demand_model *model_of(const room *r, const model_entry *entry)
{
  for (size_t i = 0; i < r->count; i++)
    if (r->entries[i] == entry)
      return &r->models[i];
  return NULL;
}

// An ensemble's use counts for its steps' models too. Returns whether this changes any of them.
static bool pass_on(demand *d, room *r, size_t at)
{
  bool news = false;
  string_list names = {0};
  const demand_model *whole = &r->models[at];
  model_entry *entry = r->entries[at];
  pthread_mutex_lock(&entry->lock);
  if (entry->ensemble != NULL)
    ensemble_add_steps(entry->ensemble->config, &names);
  pthread_mutex_unlock(&entry->lock);
  for (size_t i = 0; i < names.count; i++) {
    demand_model *part =
        model_of(r, ensemble_step_entry(&d->server->models, entry, names.items[i]));
    if (part == NULL)
      continue;
    news = news || (whole->in_use && !part->in_use) || (whole->pinned && !part->pinned) ||
           whole->used_ns > part->used_ns;
    part->in_use = part->in_use || whole->in_use;
    part->pinned = part->pinned || whole->pinned;
    part->used_ns = whole->used_ns > part->used_ns ? whole->used_ns : part->used_ns;
  }
  string_list_fini(&names);
  return news;
}

static void pass_on_all(demand *d, room *r)
{
  bool news = atomic_load_explicit(&d->server->models.ensembles, memory_order_relaxed) > 0;
  while (news) {
    news = false;
    for (size_t i = 0; i < r->count; i++)
      news = pass_on(d, r, i) || news;
  }
}

uint64_t demand_used_bytes(demand *d)
{
  demand_model m;
  uint64_t sum = 0;
  model_entry *entry = NULL;
  while ((entry = model_table_next(&d->server->models, entry)) != NULL)
    if (look_at(entry, &m))
      sum += m.bytes;
  return sum;
}

// ---- making room ----

static void evict(demand *d, model_entry *entry, const demand_model *m, const demand_load *l)
{
  if (!dependents_unload_idle(d->server, entry))
    return; // a request was quicker
  double idle = (double)(clock_monotonic_ns() - m->used_ns) / 1e9;
  if (l != NULL)
    log_info("evicted '%s' (%" PRIu64 " bytes, unused for %.1f s): room for '%s' in the memory "
             "budget of %" PRIu64 " bytes",
             entry->name, m->bytes, idle, l->name, d->budget);
  else
    log_info("evicted '%s' (%" PRIu64 " bytes, unused for %.1f s): the memory budget of %" PRIu64
             " bytes is exceeded",
             entry->name, m->bytes, idle, d->budget);
  LOCK_SCOPE(&d->lock);
  d->evictions++;
}

// `l` NULL: the budget of what is loaded already. Without memory to look, everything fits.
static demand_verdict make_room(demand *d, const demand_load *l, uint64_t loading_bytes)
{
  room r;
  demand_verdict verdict = DEMAND_FITS;
  const demand_need need = {
      .budget = d->budget,
      .loading_bytes = loading_bytes,
      .is_load = l != NULL,
      .bytes = l != NULL ? l->bytes : 0,
      .waited_ns = l != NULL ? clock_monotonic_ns() - l->queued_ns : 0,
  };
  if (d->budget > 0 && gather(d, &r)) {
    pass_on_all(d, &r);
    verdict = demand_decide(r.models, r.count, &need);
    for (size_t i = 0; i < r.count; i++)
      if (r.models[i].goes)
        evict(d, r.entries[i], &r.models[i], l);
  }
  if (d->budget > 0)
    room_fini(&r);
  if (verdict == DEMAND_EXCEEDS && l != NULL)
    log_warning("'%s' (about %" PRIu64 " bytes) is loaded though the memory budget of %" PRIu64
                " bytes has no room: what is in use or pinned does not leave any",
                l->name, l->bytes, d->budget);
  return verdict;
}

// ---- the keeper: all with the lock held before and after ----

// Lets the load begin, or ends it when nobody wants it. False: it waits for room.
static bool admit(demand *d, demand_load *l)
{
  assert(lock_is_held(&d->lock) && list_is_linked(&l->node));
  uint64_t loading = d->loading_bytes;
  bool wanted = !list_is_empty(&l->waiting) && !d->ending;
  bool ending = d->ending;
  if (!wanted) // a later request makes a new load
    string_map_remove(&d->loads, slice_of(l->name));
  pthread_mutex_unlock(&d->lock);
  if (!wanted)
    demand_end_load(l, ending ? error_new(ERROR_UNAVAILABLE, "Server exiting")
                              : error_new(ERROR_CANCELLED, "Request was cancelled"));
  bool admitted = wanted && make_room(d, l, loading) != DEMAND_WAITS;
  pthread_mutex_lock(&d->lock);
  if (admitted) {
    list_remove(&l->node);
    demand_load_set(l, DEMAND_LOADING);
    d->loading_bytes += l->bytes;
    pthread_mutex_unlock(&d->lock);
    load_pool_add(&d->loaders, &l->task);
    pthread_mutex_lock(&d->lock);
  }
  return admitted || !wanted;
}

static void settle(demand *d)
{
  assert(lock_is_held(&d->lock));
  uint64_t loading = d->loading_bytes;
  d->unsettled = false;
  pthread_mutex_unlock(&d->lock);
  bool waits = make_room(d, NULL, loading) == DEMAND_WAITS;
  pthread_mutex_lock(&d->lock);
  d->unsettled = d->unsettled || waits;
  if (waits && list_is_empty(&d->queue) && !d->ending)
    thread_wait(&d->changed, &d->lock, clock_monotonic_ns() + SETTLE_LOOK_NS);
}

void *demand_keep(void *demand_pointer)
{
  demand *d = demand_pointer;
  pthread_mutex_lock(&d->lock);
  for (;;) {
    demand_load *first = container_of(list_first(&d->queue), demand_load, node);
    if (first != NULL) {
      if (!admit(d, first) && !d->ending)
        thread_wait(&d->changed, &d->lock, clock_monotonic_ns() + ROOM_LOOK_NS);
    } else if (d->ending && d->loads.live_count == 0) {
      break;
    } else if (d->unsettled && !d->ending) {
      settle(d);
    } else {
      pthread_cond_wait(&d->changed, &d->lock);
    }
  }
  pthread_mutex_unlock(&d->lock);
  return NULL;
}
