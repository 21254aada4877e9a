// SPDX-License-Identifier: Apache-2.0
// The futex of a position is the lower half of its 64 bits. That half cannot wrap around while a
// thread is about to sleep on it: the writer stops after CHANNEL_RING_SLOTS steps, until the
// waiting side has moved its own position.
//
// Why no wake is lost. A waiter stores `asleep` = seen + 1 and then loads `value`. A writer stores
// `value` = new and then loads `asleep`. All four are sequentially consistent, so they have one
// order. Either the waiter's load follows the writer's store, and the waiter does not sleep; or the
// writer's load follows the waiter's store, and the writer sees asleep > old and wakes. If the wake
// precedes the sleep, the kernel finds another value than the waiter saw and does not let it sleep.
// `asleep` is never reset: once the position has passed it, it wakes nobody. Several waiters store
// and load under their lock, so `asleep` only grows and covers all of them: a writer that steps
// from `old` finds asleep > old as long as one waiter saw `old`.
//
// Each wait is also on a private word (futex_waitv), so that closing needs no shared memory. A
// hostile peer can move our sleepers to another futex (FUTEX_CMP_REQUEUE) or write the old value
// back, but it cannot keep us asleep. Where the system has no futex_waitv, a sleep lasts
// FALLBACK_SLEEP_NS at most.
#include "channel_wait.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449 // the same on all architectures
#endif

#define LOOK_NS           (40 * 1000) // about the cost of sleeping and being woken
#define LOOKS_PER_CLOCK   16
#define MAX_PENALTY       127 // waits
#define FALLBACK_SLEEP_NS (100 * 1000 * 1000)
#define WORD_32           2   // FUTEX_32, and
#define WORD_PRIVATE      128 // FUTEX_PRIVATE_FLAG: system headers may be older than the kernel

// The kernel's struct futex_waitv.
typedef struct watched_word {
  uint64_t value;
  uint64_t address;
  uint32_t flags;
  uint32_t reserved;
} watched_word;

static _Atomic bool waitv_is_missing;

int64_t channel_now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void pause_processor(void)
{
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb" ::: "memory"); // "yield" does nothing on most
#endif
}

static uint32_t *futex_of(channel_position *position)
{
  return (uint32_t *)&position->value + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
}

// ---- the writer ----

bool channel_position_move(channel_position *position, uint64_t old, uint64_t new)
{
  atomic_store(&position->value, new);
  return atomic_load(&position->asleep) > old;
}

void channel_position_wake(channel_position *position)
{
  atomic_store_explicit(&position->woken_at, (uint64_t)channel_now_ns(), memory_order_relaxed);
  syscall(SYS_futex, futex_of(position), FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

// ---- waiters ----

void channel_waits_init(channel_waits *waits)
{
  pthread_mutex_init(&waits->lock, NULL);
  atomic_init(&waits->look_ns, LOOK_NS);
  atomic_init(&waits->ewma_ns, 2 * LOOK_NS);
}

// A long wait counts as at most twice the polling time: three long waits end polling, one does not.
static void remember(channel_waits *waits, int64_t took_ns)
{
  const int64_t ewma = atomic_load_explicit(&waits->ewma_ns, memory_order_relaxed);
  const int64_t most = 2 * atomic_load_explicit(&waits->look_ns, memory_order_relaxed);
  const int64_t counted = took_ns < most ? took_ns : most;
  atomic_store_explicit(&waits->ewma_ns, ewma + (counted - ewma) / 4, memory_order_relaxed);
}

// Whether the next wait polls: waits are short, and polling is not in vain. It is in vain when
// other threads have all the processors: then the other side moves as soon as this thread sleeps,
// and each wait seems short.
static bool may_look(const channel_end *end, channel_waits *waits)
{
  if (end->alone || atomic_load_explicit(&waits->never_look, memory_order_relaxed) ||
      atomic_load_explicit(&waits->ewma_ns, memory_order_relaxed) >=
          atomic_load_explicit(&waits->look_ns, memory_order_relaxed))
    return false;
  const uint32_t blind = atomic_load_explicit(&waits->blind, memory_order_relaxed);
  if (blind > 0)
    atomic_store_explicit(&waits->blind, blind - 1, memory_order_relaxed);
  return blind == 0;
}

static void judge_look(channel_waits *waits, bool missed)
{
  const uint32_t penalty = atomic_load_explicit(&waits->penalty, memory_order_relaxed);
  const uint32_t next = !missed                         ? penalty / 2
                        : penalty * 2 + 1 < MAX_PENALTY ? penalty * 2 + 1
                                                        : MAX_PENALTY;
  atomic_store_explicit(&waits->penalty, next, memory_order_relaxed);
  atomic_store_explicit(&waits->blind, missed ? next : 0, memory_order_relaxed);
}

// How long the wait would have been without sleeping: until the writer's wake, whose time the
// writer gives. A wrong time does no harm, it is limited to the time that passed.
static int64_t waited_ns(const channel_position *position, int64_t began, int64_t ended)
{
  const int64_t woken = (int64_t)atomic_load_explicit(&position->woken_at, memory_order_relaxed);
  return woken > began && woken < ended ? woken - began : ended - began;
}

static bool is_over(const channel_end *end, channel_position *position, uint64_t seen)
{
  return atomic_load(&position->value) != seen ||
         atomic_load_explicit(&end->closed, memory_order_acquire) != 0;
}

// Polls until the position moves or `until_ns`. True: the wait is over.
static bool look(const channel_end *end, channel_position *position, uint64_t seen,
                 int64_t until_ns)
{
  do {
    for (int i = 0; i < LOOKS_PER_CLOCK; i++) {
      if (is_over(end, position, seen))
        return true;
      pause_processor();
    }
  } while (channel_now_ns() < until_ns);
  return false;
}

static struct timespec timespec_of(int64_t ns)
{
  return (struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
}

// False: the system cannot do it.
static bool sleep_on_both(const channel_end *end, channel_position *position, uint32_t seen,
                          int64_t deadline_ns)
{
  watched_word words[] = {
      {.value = seen, .address = (uintptr_t)futex_of(position), .flags = WORD_32},
      {.value = 0, .address = (uintptr_t)&end->closed, .flags = WORD_32 | WORD_PRIVATE},
  };
  // The time is 64-bit, independent of the C library.
  const int64_t until[] = {deadline_ns / 1000000000, deadline_ns % 1000000000};
  if (atomic_load_explicit(&waitv_is_missing, memory_order_relaxed))
    return false;
  if (syscall(SYS_futex_waitv, words, 2, 0, deadline_ns == CHANNEL_WAIT_FOR_EVER ? NULL : until,
              CLOCK_MONOTONIC) >= 0)
    return true;
  if (errno == ENOSYS || errno == EPERM || errno == EACCES) // an old system, or a sandbox
    atomic_store_explicit(&waitv_is_missing, true, memory_order_relaxed);
  return errno == EAGAIN || errno == EINTR || errno == ETIMEDOUT;
}

static void sleep_on_one(const channel_end *end, channel_position *position, uint32_t seen,
                         int64_t deadline_ns)
{
  const int64_t most = channel_now_ns() + FALLBACK_SLEEP_NS;
  const struct timespec until =
      timespec_of(deadline_ns == CHANNEL_WAIT_FOR_EVER || deadline_ns > most ? most : deadline_ns);
  if (atomic_load(&end->closed) == 0)
    syscall(SYS_futex, futex_of(position), FUTEX_WAIT_BITSET, seen, &until, NULL,
            FUTEX_BITSET_MATCH_ANY);
}

static void sleep_until_moved(const channel_end *end, channel_position *position,
                              channel_waits *waits, uint64_t seen, int64_t deadline_ns)
{
  pthread_mutex_lock(&waits->lock);
  const uint64_t value = atomic_load(&position->value);
  if (value == seen)
    atomic_store(&position->asleep, seen + 1);
  pthread_mutex_unlock(&waits->lock);
  if (value != seen || is_over(end, position, seen))
    return;
  if (!sleep_on_both(end, position, (uint32_t)seen, deadline_ns))
    sleep_on_one(end, position, (uint32_t)seen, deadline_ns);
}

bool channel_wait(const channel_end *end, channel_position *position, channel_waits *waits,
                  uint64_t seen, int64_t deadline_ns)
{
  const int64_t began = channel_now_ns();
  if (deadline_ns != CHANNEL_WAIT_FOR_EVER && began >= deadline_ns)
    return false;
  bool over = false;
  if (may_look(end, waits)) {
    const int64_t until = began + atomic_load_explicit(&waits->look_ns, memory_order_relaxed);
    const bool soon = deadline_ns != CHANNEL_WAIT_FOR_EVER && deadline_ns < until;
    over = look(end, position, seen, soon ? deadline_ns : until);
    judge_look(waits, !over);
  }
  const bool slept = !over;
  if (slept)
    sleep_until_moved(end, position, waits, seen, deadline_ns);
  const int64_t ended = channel_now_ns();
  remember(waits, slept ? waited_ns(position, began, ended) : ended - began);
  return true;
}

// ---- the end ----

void channel_end_close(channel_end *end)
{
  atomic_store(&end->closed, 1);
  syscall(SYS_futex, &end->closed, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
