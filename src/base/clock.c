// SPDX-License-Identifier: Apache-2.0
// The system's clocks behind one type.
#include "base/clock.h"

#include <errno.h>

static uint64_t read_clock(clockid_t id)
{
  struct timespec now;
  clock_gettime(id, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t clock_monotonic_ns(void)
{
  return read_clock(CLOCK_MONOTONIC);
}

uint64_t clock_realtime_ns(void)
{
  return read_clock(CLOCK_REALTIME);
}

static uint64_t system_now(void *context)
{
  (void)context;
  return clock_monotonic_ns();
}

clock_source clock_system(void)
{
  return (clock_source){system_now, NULL};
}

struct timespec clock_timespec(uint64_t moment_ns)
{
  return (struct timespec){.tv_sec = (time_t)(moment_ns / 1000000000u),
                           .tv_nsec = (long)(moment_ns % 1000000000u)};
}

void clock_sleep_until(uint64_t moment_ns)
{
  struct timespec moment = clock_timespec(moment_ns);
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &moment, NULL) == EINTR)
    ;
}
