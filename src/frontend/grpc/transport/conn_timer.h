// SPDX-License-Identifier: Apache-2.0
// A loop's timers, soonest first. A timer is embedded in its object. One thread.
#ifndef NEREID_FRONTEND_GRPC_TRANSPORT_CONN_TIMER_H
#define NEREID_FRONTEND_GRPC_TRANSPORT_CONN_TIMER_H

#include "base/heap.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct conn_timer conn_timer;

struct conn_timer {                  // zero it and set `fire`
  heap_node node;                    // when_ns is on the monotonic clock
  void (*fire)(conn_timer *elapsed); // may set the timer again, or free its object
};

typedef struct conn_timers { // zeroed: none
  heap heap;
  uint64_t run_ns; // timers due by then have fired
} conn_timers;

static inline bool conn_timer_is_set(const conn_timer *t)
{
  return heap_is_linked(&t->node);
}

// Sets or moves a timer. A time in the past fires in the next run, after all that is due.
void conn_timer_set(conn_timers *all, conn_timer *t, uint64_t due_ns);
void conn_timer_cancel(conn_timers *all, conn_timer *t); // nothing, if it is not set

// Fires all that is due.
void conn_timers_run(conn_timers *all, uint64_t now_ns);

// When the next timer is due; UINT64_MAX: none is set.
uint64_t conn_timers_next(const conn_timers *all);

#endif
