// SPDX-License-Identifier: Apache-2.0
// Fires deadlines on time: a heap of timers and one thread a server. A timer belongs to a queue,
// not to a request, and is armed only where a queue's policy has timeouts, so that the heap stays
// small and its lock is off the request path.
#ifndef NEREID_SCHEDULE_TIMEKEEPER_H
#define NEREID_SCHEDULE_TIMEKEEPER_H

#include "base/clock.h"
#include "base/error.h"
#include "base/heap.h"

#include <stdbool.h>

typedef struct timekeeper timekeeper;

// Called when a timer is due, with no lock held, on the timekeeper's thread. Returns when to fire
// next, or CLOCK_NEVER.
typedef uint64_t timer_callback(void *context, uint64_t now_ns);

// Embedded in whatever has a deadline. All fields are the timekeeper's own.
typedef struct timer {
  heap_node node; // linked: armed
  timer_callback *callback;
  void *context;
  bool firing;       // its callback runs
  uint64_t rearm_ns; // armed again while firing: when
} timer;

// Starts the thread. `clock` must be CLOCK_MONOTONIC's: the thread sleeps on it.
error *timekeeper_new(clock_source clock, timekeeper **k);
// Stops and joins the thread. No timer may be armed.
void timekeeper_free(timekeeper *k);

void timer_init(timer *t, timer_callback *callback, void *context);

// Makes the timer fire at `when_ns`, or before when it is armed for an earlier moment already. A
// moment in the past fires at once. Any thread, also from the callback.
void timekeeper_arm(timekeeper *k, timer *t, uint64_t when_ns);

// After this the callback does not run and will not run, and the timer may go. Waits for one that
// is running, unless it is the callback itself that cancels: what that returns means nothing then.
// Idempotent.
void timekeeper_cancel(timekeeper *k, timer *t);

#endif
