// SPDX-License-Identifier: Apache-2.0
// The bytes that one client holds in things too small to count singly: calls, requests, unread
// replies. The first BUDGET_FREE_BYTES are free, so a client that holds little is served even when
// others fill the budget. Beyond that, bytes count for the budget in steps, because all threads
// share its counter. Thread-safe.
#ifndef NEREID_FRONTEND_COMMON_NET_BUDGET_SHARE_H
#define NEREID_FRONTEND_COMMON_NET_BUDGET_SHARE_H

#include "frontend/common/net/budget.h"

#include <assert.h>

#define BUDGET_FREE_BYTES ((size_t)64 << 10)
#define BUDGET_STEP_BYTES ((size_t)16 << 10)

typedef struct budget_share {
  byte_budget *budget;
  _Atomic size_t held; // bytes of all these things
} budget_share;

// How many bytes the budget counts when the client holds `held`.
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

// `take` is one of the budget_take_… functions. False when the budget has no room.
static inline bool budget_share_take(budget_share *s, size_t size,
                                     bool (*take)(byte_budget *b, size_t size))
{
  size_t before = atomic_fetch_add_explicit(&s->held, size, memory_order_relaxed);
  size_t more = budget_share_counted(before + size) - budget_share_counted(before);
  if (more == 0 || take(s->budget, more))
    return true;
  // Other threads may have changed `held` meanwhile, so undo it as a take followed by a give-back.
  budget_take_anyway(s->budget, more);
  budget_share_give_back(s, size);
  return false;
}

#endif
