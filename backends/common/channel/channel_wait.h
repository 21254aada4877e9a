// SPDX-License-Identifier: Apache-2.0
// Waiting until the other side moves a position in shared memory: first looking, then sleeping.
#ifndef NEREID_CHANNEL_WAIT_H
#define NEREID_CHANNEL_WAIT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// In shared memory. Each part has its own writer, and a pair of cache lines of its own since
// processors fetch them in pairs.
typedef struct channel_position {
  _Alignas(128) _Atomic uint64_t value; // its writer only ever adds
  _Atomic uint64_t woken_at;            // the writer's clock in ns when it last woke somebody
  _Alignas(
      128) _Atomic uint64_t asleep; // by those who wait: they sleep while `value` is below this
} channel_position;

// Private to a side: its waits for one position.
typedef struct channel_waits {
  pthread_mutex_t lock; // held while `asleep` is written
  // A lost update of these does no harm.
  _Atomic int64_t ewma_ns;  // what waits lately took
  _Atomic uint32_t blind;   // so many waits are not to look
  _Atomic uint32_t penalty; // what `blind` became when looking was in vain the last time
  _Atomic int64_t look_ns;  // at most; the user's wish, as is:
  _Atomic bool never_look;
} channel_waits;

// Private to a side: its end.
typedef struct channel_end {
  _Atomic uint32_t closed; // a futex of this process alone
  bool alone;              // one processor: nobody moves anything while we look
} channel_end;

#define CHANNEL_WAIT_FOR_EVER (-1)

int64_t channel_now_ns(void);

void channel_waits_init(channel_waits *waits);

// By the position's writer: moves it from `old` to `new`. Returns whether somebody sleeps, who is
// then to be woken with channel_position_wake.
bool channel_position_move(channel_position *position, uint64_t old, uint64_t new);
void channel_position_wake(channel_position *position);

// Waits while the position is `seen`, not beyond `deadline_ns` (CHANNEL_WAIT_FOR_EVER: no end), nor
// once the side is closed. May return early; the caller looks again. True: it may have moved;
// false: it is time.
bool channel_wait(const channel_end *end, channel_position *position, channel_waits *waits,
                  uint64_t seen, int64_t deadline_ns);

// Lets all waits of this side return, now and later.
void channel_end_close(channel_end *end);

#endif
