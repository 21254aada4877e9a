// SPDX-License-Identifier: Apache-2.0
// Each step has a limit with its own lock, which holds the list of steps put aside. Any thread.
#include "core/ensemble_limit.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "core/ensemble_late.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

static ensemble_limit *limit_of(const ensemble_step *s)
{
  ensemble *e = s->wave->run->ensemble;
  return e->limits == NULL ? NULL : &e->limits[s->index];
}

static bool has_failed(const ensemble_step *s)
{
  return flow_has_failed(&s->wave->run->flow);
}

static void take(ensemble_limit *l, ensemble_step *s)
{
  assert(lock_is_held(&l->lock));
  ensemble_places_take(&l->places);
  s->is_limited = true;
}

static void report_long_wait(const ensemble_limit *l, const ensemble_step *s)
{
  log_error("ensemble '%s': step %" PRIu32 " waited 300 seconds (%" PRIu32
            " requests under way, max_inflight_requests %" PRIu32 "): it begins all the same",
            s->wave->run->model->name, s->index, l->places.under_way, l->places.max);
}

// ---- steps that were put aside ----

static ensemble_step *step_at(ensemble_place *place)
{
  return container_of(place, ensemble_step, place);
}

// The step continues; is_limited false: without a place, as it was let through.
static void resume(ensemble_step *s, bool is_limited)
{
  s->is_limited = is_limited;
  ensemble_late_add(&s->wave->run->ensemble->late, s);
}

static void put_aside(ensemble_limit *l, ensemble_step *s)
{
  assert(lock_is_held(&l->lock));
  const bool is_first = list_is_empty(&l->places.waiting);
  ensemble_places_wait(&l->places, &s->place, clock_monotonic_ns());
  if (is_first)
    timekeeper_arm(l->timekeeper, &l->timer, ensemble_places_next_ns(&l->places));
}

static uint64_t end_long_waits(void *context, uint64_t now_ns)
{
  ensemble_limit *l = context;
  ensemble_place *late;
  LOCK_SCOPE(&l->lock);
  while ((late = ensemble_places_overdue(&l->places, now_ns)) != NULL) {
    report_long_wait(l, step_at(late));
    resume(step_at(late), true);
  }
  return ensemble_places_next_ns(&l->places);
}

void ensemble_limit_let_through(ensemble_run *run)
{
  ensemble *e = run->ensemble;
  for (uint32_t i = 0; e->limits != NULL && i < e->graph->step_count; i++) {
    ensemble_limit *l = &e->limits[i];
    LOCK_SCOPE(&l->lock);
    list_node *node = list_first(&l->places.waiting), *next;
    for (; node != NULL; node = next) {
      ensemble_step *s = step_at(container_of(node, ensemble_place, node));
      next = list_next(&l->places.waiting, node);
      if (s->wave->run != run)
        continue;
      ensemble_places_withdraw(&s->place);
      resume(s, false);
    }
    pthread_cond_broadcast(&l->left);
  }
}

// ---- in and out ----

static void wait(ensemble_limit *l, ensemble_step *s)
{
  uint64_t until_ns = clock_monotonic_ns() + ENSEMBLE_PATIENCE_NS;
  assert(lock_is_held(&l->lock));
  while (ensemble_places_are_taken(&l->places) && !has_failed(s))
    if (!thread_wait(&l->left, &l->lock, until_ns)) {
      report_long_wait(l, s);
      break;
    }
  take(l, s);
}

bool ensemble_limit_enter(ensemble_step *s, bool blocks)
{
  ensemble_limit *l = limit_of(s);
  if (l == NULL)
    return true;
  LOCK_SCOPE(&l->lock);
  if (blocks) {
    wait(l, s);
    return true;
  }
  if (ensemble_places_are_taken(&l->places) && !has_failed(s)) {
    put_aside(l, s);
    return false;
  }
  take(l, s);
  return true;
}

void ensemble_limit_leave(ensemble_step *s)
{
  ensemble_limit *l = limit_of(s);
  if (l == NULL || !s->is_limited)
    return;
  s->is_limited = false;
  LOCK_SCOPE(&l->lock);
  ensemble_place *next = ensemble_places_leave(&l->places);
  if (next != NULL)
    resume(step_at(next), true);
  else if (!ensemble_places_are_taken(&l->places))
    pthread_cond_signal(&l->left);
}

// ---- making ----

error *ensemble_limits_init(ensemble *e, uint32_t max)
{
  uint32_t count = e->graph->step_count;
  if (max == 0)
    return NULL;
  e->limits = calloc(count, sizeof(*e->limits));
  if (e->limits == NULL)
    return error_no_memory();
  for (uint32_t i = 0; i < count; i++) {
    ensemble_limit *l = &e->limits[i];
    l->timekeeper = e->late.timekeeper;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->left, NULL);
    ensemble_places_init(&l->places, max);
    timer_init(&l->timer, end_long_waits, l);
  }
  return NULL;
}

void ensemble_limits_fini(ensemble *e)
{
  for (uint32_t i = 0; e->limits != NULL && i < e->graph->step_count; i++) {
    ensemble_limit *l = &e->limits[i];
    timekeeper_cancel(l->timekeeper, &l->timer);
    assert(list_is_empty(&l->places.waiting) && l->places.under_way == 0);
    pthread_cond_destroy(&l->left);
    pthread_mutex_destroy(&l->lock);
  }
  free(e->limits);
}
