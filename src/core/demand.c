// SPDX-License-Identifier: Apache-2.0
// Requests for models. A load is in the map by its name from the first request on until it is over.
// Any thread.
#include "core/demand.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/thread.h"
#include "core/demand_parts.h"
#include "core/server_state.h"
#include "core/server_status.h"

#include <assert.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#define LOOKERS 2

// ---- loads ----

static demand_load *make_load(demand *d, const char *name)
{
  demand_load *l = calloc(1, sizeof(*l));
  if (l == NULL || (l->name = strdup(name)) == NULL ||
      !string_map_put(&d->loads, slice_of(name), l)) {
    if (l != NULL)
      free(l->name);
    free(l);
    return NULL;
  }
  l->demand = d;
  l->task.run = demand_look;
  list_init(&l->waiting);
  return l;
}

// Makes `w` wait for the load, and makes the load unless it is under way. *begun: the caller hands
// it to the lookers. Once the lock is free, the wait may be over.
static error *join(demand *d, const char *name, model_wait *w, demand_load **begun)
{
  *begun = NULL;
  LOCK_SCOPE(&d->lock);
  if (d->ending)
    return error_new(ERROR_UNAVAILABLE, "Server exiting");
  demand_load *l = string_map_get(&d->loads, slice_of(name));
  if (l == NULL) {
    l = *begun = make_load(d, name);
    if (l == NULL)
      return error_no_memory();
  }
  model_wait_join(w, l);
  return NULL;
}

// ---- asking ----

// Whether the model is loaded, but not in that version: one look, as versions may come or go
// meanwhile.
static bool lacks_version(model_entry *entry, int64_t version)
{
  bool serves = false, has_it = version == -1;
  LOCK_SCOPE(&entry->lock);
  for (size_t i = 0; i < entry->version_count; i++) {
    bool ready = entry->versions[i].state == VERSION_READY;
    serves = serves || ready;
    has_it = has_it || (ready && entry->versions[i].version == version);
  }
  return serves && !has_it;
}

// The error that is known without a load, or NULL. `unknown_owned`: why the model was not found.
static error *known_failure(demand *d, const char *name, int64_t version, error *unknown_owned)
{
  error *bad = repository_check_name(name);
  model_entry *entry = bad == NULL ? model_table_find(&d->server->models, name) : NULL;
  error_free(bad);
  if (bad != NULL || (entry != NULL && lacks_version(entry, version)))
    return unknown_owned;
  error_free(unknown_owned);
  return entry == NULL ? NULL : demand_refusal(entry, clock_monotonic_ns(), DEMAND_REFUSES);
}

error *demand_await(server *s, const char *name, int64_t version, uint64_t deadline_ns,
                    model_wait_ended *ended, void *context, model_wait **result, bool *waits)
{
  *result = NULL;
  *waits = false;
  model_wait *w = model_wait_new(s->demand, version, deadline_ns, ended, context);
  if (w == NULL)
    return error_no_memory();
  *result = w;
  demand_load *begun = NULL;
  error *e = server_find_model(s, name, version, &w->m);
  if (e == NULL)
    return NULL;
  e = known_failure(s->demand, name, version, e);
  *waits = true;
  if (e == NULL)
    e = join(s->demand, name, w, &begun);
  if (e != NULL) {
    *waits = false;
    *result = NULL;
    free(w);
  } else if (begun != NULL) {
    load_pool_add(&s->demand->lookers, &begun->task);
  }
  return e;
}

static void post(model_wait *w, void *semaphore)
{
  (void)w;
  sem_post(semaphore);
}

error *demand_find_model(server *s, const char *name, int64_t version, model **m)
{
  bool waits;
  model_wait *w;
  sem_t over;
  error *e = server_find_model(s, name, version, m);
  if (e == NULL || s->demand == NULL)
    return e;
  error_free(e);
  sem_init(&over, 0, 0);
  e = demand_await(s, name, version, CLOCK_NEVER, post, &over, &w, &waits);
  while (e == NULL && waits && sem_wait(&over) != 0)
    ; // a signal
  if (e == NULL)
    e = model_wait_take_error(w);
  if (e == NULL)
    *m = model_ref(w->m);
  model_wait_free(w);
  sem_destroy(&over);
  return e;
}

// ---- life ----

error *demand_new(server *s, uint64_t budget_bytes, demand **result)
{
  demand *d = calloc(1, sizeof(*d));
  if (d == NULL)
    return error_no_memory();
  d->server = s;
  d->budget = budget_bytes;
  list_init(&d->queue);
  pthread_mutex_init(&d->lock, NULL);
  pthread_cond_init(&d->changed, NULL);
  load_pool_init(&d->lookers, "look", LOOKERS);
  load_pool_init(&d->loaders, "demand", s->options.model_load_thread_count);
  error *e = thread_start(&d->keeper, "keeper", demand_keep, d);
  if (e != NULL) {
    load_pool_fini(&d->lookers);
    load_pool_fini(&d->loaders);
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->lock);
    free(d);
    return e;
  }
  *result = d;
  return NULL;
}

void demand_stop(demand *d)
{
  if (d == NULL)
    return;
  LOCK_SCOPE(&d->lock);
  d->ending = true;
  pthread_cond_signal(&d->changed); // the keeper ends the waits
}

void demand_free(demand *d)
{
  if (d == NULL)
    return;
  demand_stop(d);
  load_pool_fini(&d->lookers); // the keeper ends at once what they queue now
  pthread_join(d->keeper, NULL);
  load_pool_fini(&d->loaders);
  assert(d->waiting == 0 && list_is_empty(&d->queue));
  string_map_fini(&d->loads);
  pthread_cond_destroy(&d->changed);
  pthread_mutex_destroy(&d->lock);
  free(d);
}

void demand_settle(demand *d)
{
  if (d == NULL)
    return;
  LOCK_SCOPE(&d->lock);
  d->unsettled = true;
  pthread_cond_signal(&d->changed);
}

void demand_count(demand *d, demand_counts *counts)
{
  uint64_t used = demand_used_bytes(d);
  LOCK_SCOPE(&d->lock);
  *counts = (demand_counts){.loads = d->loads_done,
                            .failures = d->failures,
                            .evictions = d->evictions,
                            .waiting = d->waiting,
                            .budget_bytes = d->budget,
                            .used_bytes = used};
}
