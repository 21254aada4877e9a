// Whether a loop that has nothing to do looks again instead of sleeping (docs/performance.md).
// Inline: this stands between any two requests.
//
// It is worth it only where the last pause was short, and not beyond the time that one may last: a
// client that does not come back costs one such time. Where several clients are ready at a time, or
// other loops are at work, the next request is never far, and the processor is better used by them.
// What another thread does takes longer than polling lasts, or it would have been done right here,
// and that thread wants the processor.
#ifndef NEREID_FRONTEND_COMMON_NET_BUSY_POLL_H
#define NEREID_FRONTEND_COMMON_NET_BUSY_POLL_H

#include "base/clock.h"
#include "base/machine.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// What the loops of a listener share.
typedef struct busy_poll_limits {
  uint64_t max_ns;        // 0: never
  unsigned max_awake;     // a loop polls only while at most so many loops are awake
  _Atomic unsigned awake; // loops that do not sleep
} busy_poll_limits;

// Of one loop, on its thread.
typedef struct busy_poll {
  unsigned begun;       // requests that began in this pass
  unsigned in_flight;   // requests that the core or a job has
  uint64_t worked_ns;   // when there last was progress
  bool clients_hurried; // the client came back within the polling time, and was the only one
} busy_poll;

static inline void busy_poll_limits_init(busy_poll_limits *limits, unsigned max_us)
{
  unsigned cpus = machine_cpus();
  // Where there is one processor, polling would keep it from whoever is waited for.
  limits->max_ns = cpus > 1 ? (uint64_t)max_us * 1000 : 0;
  limits->max_awake = cpus / 2;
  atomic_init(&limits->awake, 0);
}

// A loop was started or woke up, and sleeps.
static inline void busy_poll_awake(busy_poll_limits *limits)
{
  atomic_fetch_add_explicit(&limits->awake, 1, memory_order_relaxed);
}

static inline void busy_poll_asleep(busy_poll_limits *limits)
{
  atomic_fetch_sub_explicit(&limits->awake, 1, memory_order_relaxed);
}

static inline bool busy_poll_is_worth_it(const busy_poll *p, const busy_poll_limits *limits)
{
  return p->clients_hurried && p->in_flight == 0 &&
         atomic_load_explicit(&limits->awake, memory_order_relaxed) <= limits->max_awake &&
         clock_monotonic_ns() - p->worked_ns < limits->max_ns;
}

// After a pass in which there was something to do.
static inline void busy_poll_record_progress(busy_poll *p, const busy_poll_limits *limits)
{
  if (limits->max_ns == 0)
    return;
  uint64_t now = clock_monotonic_ns();
  p->clients_hurried = p->begun < 2 && now - p->worked_ns < 2 * limits->max_ns;
  p->worked_ns = now;
}

#endif
