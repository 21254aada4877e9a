// SPDX-License-Identifier: Apache-2.0
// Starts named threads, and waits on conditions. Each thread has an owner that joins it;
// docs/architecture.md lists them all.
#ifndef NEREID_BASE_THREAD_H
#define NEREID_BASE_THREAD_H

#include "base/error.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

// Starts a thread with signals blocked, so that only the main thread handles them; signals that an
// instruction raises (SIGSEGV and the like) stay unblocked. `name` is cut to the kernel's 15
// characters. Errors: UNAVAILABLE with the thread's name and the system's reason.
error *thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *argument);

// The same; returns 0 or an errno.
int thread_create(pthread_t *thread, const char *name, void *(*run)(void *), void *argument);

// Waits as pthread_cond_wait does, but at most until `deadline_ns` of clock_monotonic_ns
// (CLOCK_NEVER: no limit). False once the deadline has passed.
bool thread_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t deadline_ns);

// For asserts: whether any thread holds `lock`; the caller should.
static inline bool lock_is_held(const pthread_mutex_t *lock)
{
  if (pthread_mutex_trylock((pthread_mutex_t *)lock) != 0)
    return true;
  pthread_mutex_unlock((pthread_mutex_t *)lock);
  return false;
}

#endif
