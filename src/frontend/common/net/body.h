// SPDX-License-Identifier: Apache-2.0
// What a client sends, in one buffer: the body of an HTTP request, a message of a gRPC call.
// Tensors are handed to the core as slices of it, so it starts such that they are aligned, and it
// lives as long as its request. One owner at a time, no locks, except for the budget, which all
// bodies of a listener share.
#ifndef NEREID_FRONTEND_COMMON_NET_BODY_H
#define NEREID_FRONTEND_COMMON_NET_BODY_H

#include "base/arena.h"
#include "base/slice.h"
#include "frontend/common/net/budget.h"
#include "frontend/common/net/compress.h"

#include <stdbool.h>
#include <stddef.h>

#define BODY_ALIGNMENT  64
#define BODY_MAX_CHUNKS 65536

// Why a body was not taken.
typedef enum body_result {
  BODY_OK,
  BODY_TOO_LARGE,   // more than max_size
  BODY_OVER_BUDGET, // the server holds too much at this moment
  BODY_NO_MEMORY,
  BODY_TOO_MANY_CHUNKS,
  BODY_CORRUPT, // not what its coding says
} body_result;

// How much of a body counts for the budget, and how much memory it has, as it comes.
typedef struct body_rules {
  size_t counted_from; // bytes of a body outside of the arena: shorter ones do not count
  size_t count_step;   // so much is taken from the budget at a time, where there is memory for it
  size_t unannounced_room; // memory at first, where the budget does not take all that is announced
} body_rules;

extern const body_rules body_rules_whole; // memory for all that is announced: pages come with bytes

// Memory that a body may be in instead of a block, of which there is little. Any thread.
typedef struct body_pool {
  void *(*take)(void *owner, size_t size); // NULL: there is no room
  void (*give_back)(void *owner, void *memory, size_t size);
} body_pool;

typedef struct body {
  const body_rules *rules;
  char *data; // size bytes in use, and BODY_ALIGNMENT readable zeroes behind them after body_finish
  size_t size;
  size_t capacity;
  size_t max_size;
  size_t aligned_at; // offset that is a multiple of BODY_ALIGNMENT in memory
  size_t pieces;     // short pieces so far, of a chunked body
  bool chunked;      // set before the first piece
  size_t dropped;    // bytes of pieces that were not kept
  void *memory;      // a block, NULL when data is in the arena
  size_t memory_size;
  bool in_pool;          // memory is of the pool
  const body_pool *pool; // NULL: there is none; see body_prefer
  void *pool_owner;
  size_t reserved;     // from the budget
  size_t reserved_for; // bytes of the body that are part of it
  byte_budget *budget; // borrowed
  arena *arena;        // borrowed; small bodies are in it. May be NULL
} body;

// With body_rules_whole.
void body_init(body *b, byte_budget *budget, arena *a, size_t max_size);
void body_fini(body *b);

// Before body_begin: a body that the budget takes as a whole is in memory of `pool` (borrowed, with
// `owner`) where that has room. It does not become longer than it was expected to be.
void body_prefer(body *b, const body_pool *pool, void *owner);

// Makes room for `expected` bytes (0 when unknown), which must fit into the budget. `aligned_at` is
// where tensors begin or end.
body_result body_begin(body *b, size_t expected, size_t aligned_at);

// Its memory, where that is of a pool; else empty.
static inline slice body_in_pool(const body *b)
{
  return b->in_pool ? (slice){b->data, b->size} : (slice){NULL, 0};
}

body_result body_append(body *b, const char *data, size_t size);

// Counts a piece of a body that nobody wants: it has the same limits.
body_result body_drop(body *b, size_t size);

// Counts `size` bytes that were made of this body, until body_fini.
body_result body_reserve_work(body *b, size_t size);

// The body is complete: zeroes are put behind it.
body_result body_finish(body *b);

// Nobody looks at `size` bytes from `offset` on any more: what memory they have may go.
void body_discard(body *b, size_t offset, size_t size);

// --- Unpacking

typedef struct unpacking unpacking;

// Begins to unpack `b` (borrowed, not touched meanwhile) into max_size bytes at most, about
// `guess`. `strict`: it is one stream, in just the format that the coding names.
body_result unpacking_new(body *b, content_coding coding, bool strict, size_t max_size,
                          size_t guess, unpacking **result);
void unpacking_free(unpacking *u); // NULL is allowed

// Goes on until there are `enough` bytes or, *done, the body is replaced by what it holds.
body_result unpacking_run(unpacking *u, size_t enough, bool *done);

// Replaces the body by what it holds in `coding`, at most max_size bytes.
body_result body_inflate(body *b, content_coding coding);

// Moves the body to memory of its own size, such that its end is aligned; just that counts then.
body_result body_fit(body *b);

#endif
