// SPDX-License-Identifier: Apache-2.0
// What one client holds in things that are too small to be counted each: calls, requests, replies
// that it leaves unread. The first of them are free; what goes beyond BUDGET_FREE_BYTES counts for
// the budget in steps, since that is shared by all threads. So a client that holds little is
// served however much others hold. Thread-safe.
#ifndef NEREID_FRONTEND_COMMON_NET_BUDGET_SHARE_H
#define NEREID_FRONTEND_COMMON_NET_BUDGET_SHARE_H

#include "frontend/common/net/budget.h"

#include <assert.h>

#define BUDGET_FREE_BYTES ((size_t)64 << 10)
#define BUDGET_STEP_BYTES ((size_t)16 << 10)

typedef struct budget_share {
  byte_budget *budget;
  _Atomic size_t held; // bytes that all of it costs
} budget_share;

// How much the budget has been asked for when so much is held.
static inline size_t budget_share_counted(size_t held)
{
  return held <= BUDGET_FREE_BYTES ? 0
                                   : (held - BUDGET_FREE_BYTES + BUDGET_STEP_BYTES - 1) /
                                         BUDGET_STEP_BYTES * BUDGET_STEP_BYTES;
}

static inline void budget_share_give_back(budget_share *s, size_t size)
{
  if (size == 0)
    return;
  size_t before = atomic_fetch_sub_explicit(&s->held, size, memory_order_relaxed);
  assert(before >= size);
  size_t less = budget_share_counted(before) - budget_share_counted(before - size);
  if (less > 0)
    budget_give_back(s->budget, less);
}

// `take` is the budget's way to take; false when that has no room.
static inline bool budget_share_take(budget_share *s, size_t size,
                                     bool (*take)(byte_budget *b, size_t size))
{
  size_t before = atomic_fetch_add_explicit(&s->held, size, memory_order_relaxed);
  size_t more = budget_share_counted(before + size) - budget_share_counted(before);
  if (more == 0 || take(s->budget, more))
    return true;
  // Others may have taken meanwhile: as if it had been taken, and were given back.
  budget_take_anyway(s->budget, more);
  budget_share_give_back(s, size);
  return false;
}

#endif
