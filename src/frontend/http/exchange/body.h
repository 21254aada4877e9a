// A request's body in one buffer. Tensors are handed to the core as slices of it, so it starts such
// that what follows the JSON part is aligned, and it lives as long as its exchange. One owner at a
// time, no locks, except for the budget, which all bodies of a listener share.
#ifndef NEREID_FRONTEND_HTTP_EXCHANGE_BODY_H
#define NEREID_FRONTEND_HTTP_EXCHANGE_BODY_H

#include "base/arena.h"
#include "base/slice.h"
#include "frontend/common/net/budget.h"
#include "frontend/http/transport/headers.h"

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

typedef struct body {
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
  size_t reserved;     // from the budget
  size_t reserved_for; // bytes of the body that are part of it
  byte_budget *budget; // borrowed
  arena *arena;        // borrowed; small bodies are in it
} body;

void body_init(body *b, byte_budget *budget, arena *a, size_t max_size);
void body_fini(body *b);

// Makes room for `expected` bytes (0 when unknown), which must fit into the budget. `aligned_at` is
// the size of the JSON part when tensors follow it.
body_result body_begin(body *b, size_t expected, size_t aligned_at);

body_result body_append(body *b, const char *data, size_t size);

// Counts a piece of a body that nobody wants: it has the same limits.
body_result body_drop(body *b, size_t size);

// Counts `size` bytes that were made of this body, until body_fini.
body_result body_reserve_work(body *b, size_t size);

// The body is complete: zeroes are put behind it.
body_result body_finish(body *b);

// Nobody looks at `size` bytes from `offset` on any more: what memory they have may go.
void body_discard(body *b, size_t offset, size_t size);

// Replaces the body by what it holds in `coding`, at most max_size bytes.
body_result body_inflate(body *b, content_coding coding);

#endif
