// SPDX-License-Identifier: Apache-2.0
// The end of a listener: waits until its counts, of connections or requests, are 0. Before that,
// counting costs one atomic operation.
#ifndef NEREID_FRONTEND_COMMON_NET_DRAIN_H
#define NEREID_FRONTEND_COMMON_NET_DRAIN_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct drain {
  _Atomic bool begun;    // from now on a count that reaches 0 wakes the waiting thread
  pthread_mutex_t mutex; // with `changed`
  pthread_cond_t changed;
} drain;

void drain_init(drain *d);
void drain_fini(drain *d);

// Before the first drain_wait. Any thread, idempotent.
static inline void drain_begin(drain *d)
{
  atomic_store(&d->begun, true);
}

static inline bool drain_has_begun(const drain *d)
{
  return atomic_load(&d->begun);
}

// Wakes the waiting threads.
void drain_signal(drain *d);

// Decrements the count. Any thread. Sequentially consistent with drain_begin and drain_wait:
// either this thread sees that the drain has begun, or the waiting thread sees the new count.
static inline void drain_count_down(drain *d, _Atomic size_t *count)
{
  size_t before = atomic_fetch_sub(count, 1);
  assert(before > 0);
  if (before == 1 && drain_has_begun(d))
    drain_signal(d);
}

// Waits until the count is 0 or `deadline_ns` (clock_monotonic_ns; CLOCK_NEVER: no deadline) has
// passed. Returns the count.
size_t drain_wait(drain *d, _Atomic size_t *count, uint64_t deadline_ns);

#endif
