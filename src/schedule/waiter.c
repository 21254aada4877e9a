// SPDX-License-Identifier: Apache-2.0
// The two futex calls. Called by instances' threads that wait and by the threads that wake them.
#include "schedule/waiter.h"

#include "base/clock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

void waiter_sleep(waiter *w, uint64_t until_ns)
{
  struct timespec until = clock_timespec(until_ns);
  while (atomic_load_explicit(&w->signalled, memory_order_acquire) == 0) {
    if (until_ns != CLOCK_NEVER && clock_monotonic_ns() >= until_ns)
      return;
    // WAIT_BITSET takes an absolute time of CLOCK_MONOTONIC. Whatever it returns, the loop checks
    // again.
    syscall(SYS_futex, &w->signalled, FUTEX_WAIT_BITSET_PRIVATE, 0,
            until_ns != CLOCK_NEVER ? &until : NULL, NULL, FUTEX_BITSET_MATCH_ANY);
  }
}

void waiter_wake(waiter *w)
{
  syscall(SYS_futex, &w->signalled, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
