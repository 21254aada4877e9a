// SPDX-License-Identifier: Apache-2.0
// Named threads, and waiting for them. Each has an owner that joins it; docs/architecture.md lists
// them all.
#ifndef NEREID_BASE_THREAD_H
#define NEREID_BASE_THREAD_H

#include "base/error.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

// Starts a thread with all signals blocked, so that only the main thread handles them; those that
// an instruction of the thread itself raises (SIGSEGV and its like) are not. `name` is cut to the
// kernel's 15 characters. Errors: UNAVAILABLE with the thread's name and the system's reason.
error *thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *argument);

// The same. Gives 0 or an errno.
int thread_create(pthread_t *thread, const char *name, void *(*run)(void *), void *argument);

// Waits as pthread_cond_wait does, until `deadline_ns` of clock_monotonic_ns at the latest;
// CLOCK_NEVER: without end. False: that moment has come.
bool thread_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t deadline_ns);

// For asserts: whether somebody holds `lock`, as the caller should.
static inline bool lock_is_held(const pthread_mutex_t *lock)
{
  if (pthread_mutex_trylock((pthread_mutex_t *)lock) != 0)
    return true;
  pthread_mutex_unlock((pthread_mutex_t *)lock);
  return false;
}

#endif
