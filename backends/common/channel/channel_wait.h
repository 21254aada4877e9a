// SPDX-License-Identifier: Apache-2.0
// Waits until the other side moves a position in shared memory: polls first, then sleeps.
#ifndef NEREID_CHANNEL_WAIT_H
#define NEREID_CHANNEL_WAIT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// In shared memory. The parts have different writers, so each has a pair of cache lines of its own:
// processors fetch lines in pairs.
typedef struct channel_position {
  _Alignas(128) _Atomic uint64_t value;  // only its writer stores it; it only grows
  _Atomic uint64_t woken_at;             // the writer's clock in ns when it last woke a waiter
  _Alignas(128) _Atomic uint64_t asleep; // stored by waiters, which sleep while `value` is below it
} channel_position;

// Private to a side: its waits for one position.
typedef struct channel_waits {
  pthread_mutex_t lock; // held while `asleep` is written
  // Losing an update of these does no harm.
  _Atomic int64_t ewma_ns;  // of recent waits
  _Atomic uint32_t blind;   // so many further waits do not poll
  _Atomic uint32_t penalty; // the last value of `blind` after polling in vain
  _Atomic int64_t look_ns;  // polling time at most; the channel's user sets this and the next
  _Atomic bool never_look;
} channel_waits;

// Private to a side: its end.
typedef struct channel_end {
  _Atomic uint32_t closed; // a futex of this process alone
  bool alone;              // there is one processor, so polling is useless
} channel_end;

#define CHANNEL_WAIT_FOR_EVER (-1)

int64_t channel_now_ns(void);

void channel_waits_init(channel_waits *waits);

// Called by the position's writer: moves it from `old` to `new`. Returns whether a thread sleeps;
// then call channel_position_wake.
bool channel_position_move(channel_position *position, uint64_t old, uint64_t new);
void channel_position_wake(channel_position *position);

// Waits while the position is `seen`, until `deadline_ns` (CHANNEL_WAIT_FOR_EVER: no deadline) or
// until this side is closed. True: the position may have moved, so look again. False: the deadline
// has passed.
bool channel_wait(const channel_end *end, channel_position *position, channel_waits *waits,
                  uint64_t seen, int64_t deadline_ns);

// Makes all waits of this side return, now and later.
void channel_end_close(channel_end *end);

#endif
