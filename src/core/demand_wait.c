// SPDX-License-Identifier: Apache-2.0
// Waits for a model's load. The thread that takes a wait out of its list ends it. Any thread.
#include "core/demand_wait.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/thread.h"
#include "core/demand_parts.h"
#include "core/server_state.h"
#include "core/server_status.h"

#include <assert.h>
#include <stdlib.h>

// ---- waits ----

// True: the caller ends the wait.
static bool take(model_wait *w)
{
  demand *d = w->demand;
  LOCK_SCOPE(&d->lock);
  if (!list_is_linked(&w->node))
    return false;
  list_remove(&w->node);
  assert(d->waiting > 0);
  d->waiting--;
  pthread_cond_signal(&d->changed); // maybe nobody wants the load any more
  return true;
}

static uint64_t deadline_passed(void *wait_pointer, uint64_t now_ns)
{
  model_wait *w = wait_pointer;
  (void)now_ns;
  if (take(w)) {
    w->failure = error_new(ERROR_UNAVAILABLE, "Request timeout expired");
    w->ended(w, w->context);
  }
  return CLOCK_NEVER;
}

model_wait *model_wait_new(demand *d, int64_t version, uint64_t deadline_ns,
                           model_wait_ended *ended, void *context)
{
  model_wait *w = calloc(1, sizeof(*w));
  if (w == NULL)
    return NULL;
  *w = (model_wait){.demand = d,
                    .version = version,
                    .ended = ended,
                    .context = context,
                    .deadline_ns = deadline_ns,
                    .is_timed = deadline_ns != CLOCK_NEVER};
  timer_init(&w->deadline, deadline_passed, w);
  return w;
}

void model_wait_join(model_wait *w, demand_load *l)
{
  assert(lock_is_held(&w->demand->lock));
  list_append(&l->waiting, &w->node);
  w->demand->waiting++;
  if (w->is_timed)
    timekeeper_arm(w->demand->server->timekeeper, &w->deadline, w->deadline_ns);
}

void model_wait_cancel(model_wait *w)
{
  if (!take(w))
    return;
  w->failure = error_new(ERROR_CANCELLED, "Request was cancelled");
  w->ended(w, w->context);
}

error *model_wait_take_error(model_wait *w)
{
  error *e = w->failure;
  w->failure = NULL;
  return e;
}

int64_t model_wait_version(const model_wait *w)
{
  return w->version;
}

model *model_wait_model(const model_wait *w)
{
  return w->m;
}

void model_wait_free(model_wait *w)
{
  if (w == NULL)
    return;
  assert(!list_is_linked(&w->node));
  if (w->is_timed) // its callback may be ending the wait
    timekeeper_cancel(w->demand->server->timekeeper, &w->deadline);
  if (w->m != NULL)
    model_unref(w->m);
  error_free(w->failure);
  free(w);
}

// ---- loads ----

void demand_load_set(demand_load *l, demand_stage stage)
{
  assert(lock_is_held(&l->demand->lock));
  assert(stage == l->stage + 1);
  assert(list_is_linked(&l->node) == (stage == DEMAND_QUEUED));
  l->stage = stage;
}

static void free_load(demand_load *l)
{
  assert(list_is_empty(&l->waiting));
  repository_model_fini(&l->found);
  free(l->name);
  free(l);
}

// The load is over for `w`.
static void end_wait(model_wait *w, const char *name, const error *failure)
{
  if (failure != NULL)
    w->failure = error_new(error_get_code(failure), "%s", error_message(failure));
  else
    w->failure = server_find_model(w->demand->server, name, w->version, &w->m);
  if (w->is_timed)
    timekeeper_cancel(w->demand->server->timekeeper, &w->deadline);
  w->ended(w, w->context); // `w` may be freed from here on
}

void demand_end_load(demand_load *l, error *failure_owned)
{
  demand *d = l->demand;
  list ended;
  list_init(&ended);
  pthread_mutex_lock(&d->lock);
  if (string_map_get(&d->loads, slice_of(l->name)) == l) // a later load may have its place
    string_map_remove(&d->loads, slice_of(l->name));
  if (list_is_linked(&l->node))
    list_remove(&l->node);
  pthread_cond_signal(&d->changed);
  pthread_mutex_unlock(&d->lock);
  for (;;) { // one by one, as the remaining waits may still be cancelled
    pthread_mutex_lock(&d->lock);
    model_wait *w = container_of(list_take_first(&l->waiting), model_wait, node);
    if (w != NULL)
      d->waiting--;
    pthread_mutex_unlock(&d->lock);
    if (w == NULL)
      break;
    end_wait(w, l->name, failure_owned);
  }
  error_free(failure_owned);
  free_load(l);
}
