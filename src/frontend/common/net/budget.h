// SPDX-License-Identifier: Apache-2.0
// The bytes that all requests of a listener hold at a time. Bodies are accepted up to the limit.
// Whatever is made from them (tensors out of JSON, outputs, replies) may take as much again, so
// that accepted requests can be answered. Thread-safe.
#ifndef NEREID_FRONTEND_COMMON_NET_BUDGET_H
#define NEREID_FRONTEND_COMMON_NET_BUDGET_H

#include "base/checked.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Smaller blocks of a reply are not counted, because all threads share the counter.
#define BUDGET_MIN_BYTES (64u << 10)

// Texts for clients when there is no room.
#define BUDGET_REQUESTS_FULL "the server holds as many bytes of requests as it may, try again later"
#define BUDGET_ANSWERS_FULL  "the server holds as many bytes of answers as it may, try again later"

typedef struct byte_budget {
  _Atomic size_t limit; // for requests; see budget_take_work for the rest
  _Atomic size_t used;
} byte_budget;

static inline void budget_give_back(byte_budget *b, size_t size)
{
  atomic_fetch_sub_explicit(&b->used, size, memory_order_relaxed);
}

// `used` is below 0 for a moment if one thread gives back what another one has counted in a share,
// but not added here yet (budget_share.h).
static inline size_t budget_used(size_t used)
{
  return used <= SIZE_MAX / 2 ? used : 0;
}

static inline bool budget_take_within(byte_budget *b, size_t size, size_t limit)
{
  size_t before = budget_used(atomic_fetch_add_explicit(&b->used, size, memory_order_relaxed));
  if (before <= limit && size <= limit - before)
    return true;
  budget_give_back(b, size);
  return false;
}

// Would a request of this size be accepted now?
static inline bool budget_has_room(const byte_budget *b, size_t size)
{
  size_t used = budget_used(atomic_load_explicit(&b->used, memory_order_relaxed));
  return used <= b->limit && size <= b->limit - used;
}

// For an announced body. While at most half of the budget is taken, all announced bytes count at
// once, so that an accepted body is not refused halfway. Beyond that, bytes count when they arrive
// (budget_take_input), because announcing costs a client nothing.
static inline bool budget_take_announced(byte_budget *b, size_t size)
{
  return budget_take_within(b, size, b->limit / 2);
}

// For bytes of a body.
static inline bool budget_take_input(byte_budget *b, size_t size)
{
  return budget_take_within(b, size, b->limit);
}

// For what is made from a body: tensors, outputs, the reply's text.
static inline bool budget_take_work(byte_budget *b, size_t size)
{
  size_t limit;
  return budget_take_within(b, size, checked_multiply_size(b->limit, 2, &limit) ? limit : SIZE_MAX);
}

// For the error that tells a client of a full budget: a little beyond the limit.
static inline bool budget_take_refusal(byte_budget *b, size_t size)
{
  size_t limit;
  return budget_take_within(
      b, size, checked_multiply_size(b->limit, 2, &limit) ? limit + limit / 16 : SIZE_MAX);
}

// For bytes that exist already: never refused.
static inline bool budget_take_anyway(byte_budget *b, size_t size)
{
  atomic_fetch_add_explicit(&b->used, size, memory_order_relaxed);
  return true;
}

#endif
