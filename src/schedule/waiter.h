// SPDX-License-Identifier: Apache-2.0
// A place where one thread sleeps until another wakes it or a moment comes: a futex word. Wakes
// exactly the intended thread, without the thundering herd of a condition variable.
#ifndef NEREID_SCHEDULE_WAITER_H
#define NEREID_SCHEDULE_WAITER_H

#include <stdatomic.h>
#include <stdint.h>

typedef struct waiter {
  _Atomic uint32_t signalled;
} waiter;

static inline void waiter_reset(waiter *w)
{
  atomic_store_explicit(&w->signalled, 0, memory_order_relaxed);
}

// Sleeps until the waiter is signalled or until `until_ns` of CLOCK_MONOTONIC (CLOCK_NEVER: without
// end). The caller finds out which by checking under its own lock.
void waiter_sleep(waiter *w, uint64_t until_ns);

// Two steps, so that the system call comes after the lock is released: signal under the lock that
// keeps `w` alive, then wake without a lock. The sleeper may be gone in between: waiter_wake uses
// only the address, and an extra wake-up is harmless.
static inline void waiter_signal(waiter *w)
{
  // Release: the sleeper that sees it also sees what was written before.
  atomic_store_explicit(&w->signalled, 1, memory_order_release);
}

void waiter_wake(waiter *w);

#endif
