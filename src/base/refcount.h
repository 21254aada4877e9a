// SPDX-License-Identifier: Apache-2.0
// A reference count. Taking a reference needs no order: the taker already holds one, or a lock that
// guards one. Dropping one releases this thread's writes; the thread that drops the last acquires
// all of them before it destroys.
#ifndef NEREID_BASE_REFCOUNT_H
#define NEREID_BASE_REFCOUNT_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct refcount {
  _Atomic uint32_t count;
} refcount;

static inline void refcount_init(refcount *r)
{
  atomic_init(&r->count, 1);
}

static inline void refcount_init_to(refcount *r, uint32_t count)
{
  atomic_init(&r->count, count);
}

static inline void refcount_take(refcount *r)
{
  uint32_t before = atomic_fetch_add_explicit(&r->count, 1, memory_order_relaxed);
  assert(before > 0);
  (void)before;
}

// Takes a reference unless the last is gone already. For objects found in a list that outlives
// their references.
static inline bool refcount_try_take(refcount *r)
{
  uint32_t count = atomic_load_explicit(&r->count, memory_order_relaxed);
  while (count > 0)
    if (atomic_compare_exchange_weak_explicit(&r->count, &count, count + 1, memory_order_relaxed,
                                              memory_order_relaxed))
      return true;
  return false;
}

// True for exactly one caller: the one that dropped the last reference and must destroy the object.
static inline bool refcount_drop(refcount *r)
{
  uint32_t before = atomic_fetch_sub_explicit(&r->count, 1, memory_order_acq_rel);
  assert(before > 0);
  return before == 1;
}

static inline uint32_t refcount_peek(const refcount *r)
{
  return atomic_load_explicit(&r->count, memory_order_relaxed);
}

#endif
