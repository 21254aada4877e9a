// SPDX-License-Identifier: Apache-2.0
// Moments at which a loop has something to do, soonest first. A timer is part of what it is about.
// One thread.
#ifndef NEREID_FRONTEND_GRPC_TRANSPORT_CONN_TIMER_H
#define NEREID_FRONTEND_GRPC_TRANSPORT_CONN_TIMER_H

#include "base/heap.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct conn_timer conn_timer;

struct conn_timer {                  // zeroed, but for `fire`: not set
  heap_node node;                    // when_ns is on the monotonic clock
  void (*fire)(conn_timer *elapsed); // may set it again, and free what it is part of
};

typedef struct conn_timers { // zeroed: none
  heap heap;
  uint64_t run_ns; // what was due then has fired
} conn_timers;

static inline bool conn_timer_is_set(const conn_timer *t)
{
  return heap_is_linked(&t->node);
}

// Sets or moves a timer. One in the past comes after all that is due already, in the next run.
void conn_timer_set(conn_timers *all, conn_timer *t, uint64_t due_ns);
void conn_timer_cancel(conn_timers *all, conn_timer *t); // one that is not set: nothing

// Fires what is due.
void conn_timers_run(conn_timers *all, uint64_t now_ns);

// When the next one is due; UINT64_MAX: none is set.
uint64_t conn_timers_next(const conn_timers *all);

#endif
