// SPDX-License-Identifier: Apache-2.0
// The scheduler and the timekeeper with their insides: what no thread may wait for, tests do step
// by step, by an injected clock.
#ifndef NEREID_TESTS_SCHEDULE_INSIDE_H
#define NEREID_TESTS_SCHEDULE_INSIDE_H

#include "schedule/scheduler.c"
#include "schedule/timekeeper.c"

// What an idle worker does before it sleeps. 0: no batch now, *until_ns says when there may be one.
static inline size_t take_now(scheduler *s, queue_item **items, size_t capacity,
                              batch_close_reason *reason, uint64_t *until_ns)
{
  batch_decision decision;
  pthread_mutex_lock(&s->lock);
  if (try_take(s, items, capacity, &decision)) {
    *reason = decision.reason;
    return decision.count;
  }
  pthread_mutex_unlock(&s->lock);
  *until_ns = decision.until_ns;
  return 0;
}

// What the timekeeper's thread does when it is awake: runs what is due, says when the next one is.
static inline uint64_t fire_now(timekeeper *k)
{
  pthread_mutex_lock(&k->lock);
  uint64_t next_ns = fire_due(k);
  pthread_mutex_unlock(&k->lock);
  return next_ns;
}

#endif
