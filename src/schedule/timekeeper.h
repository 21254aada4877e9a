// SPDX-License-Identifier: Apache-2.0
// Fires deadlines on time: a heap of timers and one thread for each server. A timer belongs to a
// queue, not to a request, and is armed only if the queue's policy has timeouts: so the heap stays
// small, and its lock is off the request path.
#ifndef NEREID_SCHEDULE_TIMEKEEPER_H
#define NEREID_SCHEDULE_TIMEKEEPER_H

#include "base/clock.h"
#include "base/error.h"
#include "base/heap.h"

#include <stdbool.h>

typedef struct timekeeper timekeeper;

// Called when a timer is due, with no lock held, on the timekeeper's thread. Returns the next
// moment to fire, or CLOCK_NEVER.
typedef uint64_t timer_callback(void *context, uint64_t now_ns);

// Embedded in the object with the deadline. All fields are the timekeeper's own.
typedef struct timer {
  heap_node node; // linked: armed
  timer_callback *callback;
  void *context;
  bool firing;       // its callback runs
  uint64_t rearm_ns; // when it was armed again while firing
} timer;

// Starts the thread. `clock` must be CLOCK_MONOTONIC's: the thread sleeps on it.
error *timekeeper_new(clock_source clock, timekeeper **k);
// Stops and joins the thread. No timer may be armed.
void timekeeper_free(timekeeper *k);

// Asks the thread for a sign of life. False: it has not answered the question before. One caller at
// a time.
bool timekeeper_answers(timekeeper *k);

void timer_init(timer *t, timer_callback *callback, void *context);

// Makes the timer fire at `when_ns`, or earlier if it is already armed for an earlier moment. A
// moment in the past fires at once. Any thread, also from the callback.
void timekeeper_arm(timekeeper *k, timer *t, uint64_t when_ns);

// Afterwards the callback neither runs nor will run, and the timer may be freed. Waits for a
// running callback, unless the callback itself cancels: its return value is ignored then.
// Idempotent.
void timekeeper_cancel(timekeeper *k, timer *t);

#endif
