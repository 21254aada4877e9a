// SPDX-License-Identifier: Apache-2.0
// Time, injected: code that waits or measures takes a `clock_source`, so that its tests never
// sleep.
#ifndef NEREID_BASE_CLOCK_H
#define NEREID_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define CLOCK_NEVER UINT64_MAX // never reached

typedef struct clock_source {
  uint64_t (*now_ns)(void *context); // monotonic, nanoseconds
  void *context;
} clock_source;

// CLOCK_MONOTONIC in nanoseconds.
uint64_t clock_monotonic_ns(void);

// CLOCK_REALTIME in nanoseconds since 1970, for people and file times only.
uint64_t clock_realtime_ns(void);

// The clock that the daemon runs on: clock_monotonic_ns.
clock_source clock_system(void);

static inline uint64_t clock_now(clock_source clock)
{
  return clock.now_ns(clock.context);
}

// The moment as a timespec.
struct timespec clock_timespec(uint64_t moment_ns);

// Sleeps until that moment of CLOCK_MONOTONIC.
void clock_sleep_until(uint64_t moment_ns);

#endif
