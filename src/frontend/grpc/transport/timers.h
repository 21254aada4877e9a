// Moments at which a loop has something to do, soonest first. A timer is part of what it is about.
// One thread.
#ifndef NEREID_FRONTEND_GRPC_TIMERS_H
#define NEREID_FRONTEND_GRPC_TIMERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct timer timer;

struct timer {
  uint64_t due_ns;              // on the monotonic clock
  size_t place;                 // 1 + index in the heap; 0: not set
  void (*fire)(timer *elapsed); // may set it again, and free what it is part of
};

typedef struct timers {
  timer **heap; // owned
  size_t count;
  size_t capacity;
} timers;

void timers_fini(timers *all);

// Sets or moves a timer. False when memory is short: then it is not set.
bool timers_set(timers *all, timer *t, uint64_t due_ns);
void timers_cancel(timers *all, timer *t);

// Fires what is due.
void timers_run(timers *all, uint64_t now_ns);

// When the next one is due; UINT64_MAX: none is set.
uint64_t timers_next(const timers *all);

#endif
