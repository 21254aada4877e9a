// SPDX-License-Identifier: Apache-2.0
// The bytes that a client sends, in one buffer: the body of an HTTP request or a message of a gRPC
// call. The core gets tensors as slices of this buffer, so tensors are aligned in it, and it lives
// as long as its request. One owner at a time, no lock; only the budget is shared, by all bodies of
// a listener.
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
  BODY_CORRUPT, // does not follow its coding
} body_result;

// How a body counts for the budget, and how it gets memory, while its bytes arrive.
typedef struct body_rules {
  size_t counted_from;     // bodies below this size do not count; those in the arena never do
  size_t count_step;       // bytes taken from the budget at a time, where there is memory for them
  size_t unannounced_room; // first memory when the budget does not take the whole announced size at
                           // once
} body_rules;

extern const body_rules body_rules_whole; // memory for all announced bytes at once: the kernel adds
                                          // pages as they are written

// A limited memory that a body may use instead of a block. Any thread.
typedef struct body_pool {
  void *(*take)(void *owner, size_t size); // NULL when it is full
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
  bool in_pool;          // memory belongs to the pool
  const body_pool *pool; // NULL: none; see body_prefer
  void *pool_owner;
  size_t reserved;     // bytes taken from the budget
  size_t reserved_for; // of these, the bytes taken for the body itself
  byte_budget *budget; // borrowed
  arena *arena;        // borrowed; small bodies are in it. May be NULL
} body;

// Uses body_rules_whole.
void body_init(body *b, byte_budget *budget, arena *a, size_t max_size);
void body_fini(body *b);

// Call before body_begin. If the budget takes the whole body at once and `pool` has room, the body
// is in memory of `pool` (borrowed, with `owner`). It then cannot grow beyond its expected size.
void body_prefer(body *b, const body_pool *pool, void *owner);

// Makes room for `expected` bytes (0 when unknown), which must fit into the budget. `aligned_at` is
// the offset where tensors begin or end.
body_result body_begin(body *b, size_t expected, size_t aligned_at);

// The body's bytes if they are in a pool's memory, else empty.
static inline slice body_in_pool(const body *b)
{
  return b->in_pool ? (slice){b->data, b->size} : (slice){NULL, 0};
}

body_result body_append(body *b, const char *data, size_t size);

// Counts a piece of a body that is not kept; the same limits hold.
body_result body_drop(body *b, size_t size);

// Counts `size` bytes made from this body, until body_fini.
body_result body_reserve_work(body *b, size_t size);

// The body is complete: writes zeroes behind it.
body_result body_finish(body *b);

// The caller does not need `size` bytes from `offset` any more: the kernel may take their pages.
void body_discard(body *b, size_t offset, size_t size);

// --- Unpacking

typedef struct unpacking unpacking;

// Begins to unpack `b` (borrowed, not touched meanwhile) into at most max_size bytes; `guess` is
// the expected size. `strict` allows one stream only, in exactly the format that the coding names.
body_result unpacking_new(body *b, content_coding coding, bool strict, size_t max_size,
                          size_t guess, unpacking **result);
void unpacking_free(unpacking *u); // NULL is allowed

// Continues until there are `enough` bytes, or until all is unpacked: then *done is true and the
// unpacked bytes replace the body.
body_result unpacking_run(unpacking *u, size_t enough, bool *done);

// Unpacks the body in place, into at most max_size bytes.
body_result body_inflate(body *b, content_coding coding);

// Moves the body to memory of exactly its size, with an aligned end; only that size counts then.
body_result body_fit(body *b);

#endif
