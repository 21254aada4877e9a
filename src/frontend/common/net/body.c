// SPDX-License-Identifier: Apache-2.0
// Collects bodies in memory and unpacks them. Runs on the thread that has the request: a loop's, or
// a job's for long ones.
#include "frontend/common/net/body.h"

#include "base/blocks.h"
#include "base/checked.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define ARENA_MAX_BYTES   2048 // larger bodies have a block of their own
#define FIRST_BYTES       (16u << 10)
#define SHORT_PIECE_BYTES 1024 // a longer piece may be only part of a chunk, so it is not counted

// The budget is taken in steps of a large page.
const body_rules body_rules_whole = {.count_step = 2u << 20, .unannounced_room = SIZE_MAX};

void body_init(body *b, byte_budget *budget, arena *a, size_t max_size)
{
  *b = (body){.rules = &body_rules_whole, .budget = budget, .arena = a, .max_size = max_size};
}

body_result body_reserve_work(body *b, size_t size)
{
  if (!budget_take_work(b->budget, size))
    return BODY_OVER_BUDGET;
  b->reserved += size;
  return BODY_OK;
}

// Counts the first `needed` bytes of the body for the budget, and some more, so that the shared
// counter is touched seldom. Bodies in the arena are not counted.
static body_result cover(body *b, size_t needed)
{
  if (b->memory == NULL || needed < b->rules->counted_from || needed <= b->reserved_for)
    return BODY_OK;
  size_t more = needed - b->reserved_for;
  size_t room = b->capacity - b->reserved_for;
  if (more < b->rules->count_step)
    more = room < b->rules->count_step ? room : b->rules->count_step;
  if (!budget_take_input(b->budget, more))
    return BODY_OVER_BUDGET;
  b->reserved += more;
  b->reserved_for += more;
  return BODY_OK;
}

static void release(body *b)
{
  if (b->in_pool)
    b->pool->give_back(b->pool_owner, b->memory, b->memory_size);
  else
    block_free(b->memory, b->memory_size);
  b->in_pool = false;
  b->memory = NULL;
  b->data = NULL;
  if (b->reserved > 0)
    budget_give_back(b->budget, b->reserved);
  b->reserved = b->reserved_for = 0;
}

void body_fini(body *b)
{
  if (b->budget != NULL)
    release(b);
}

// Where the body must start in `memory` so that its byte `aligned_at` is aligned.
static char *align(char *memory, size_t aligned_at)
{
  uintptr_t misaligned = ((uintptr_t)memory + aligned_at) % BODY_ALIGNMENT;
  return memory + (misaligned == 0 ? 0 : BODY_ALIGNMENT - misaligned);
}

static bool fits_arena(const body *b, size_t size)
{
  return b->arena != NULL && size <= ARENA_MAX_BYTES;
}

// Moves the body to memory for `capacity` bytes. A large block grows by moving its pages, so there
// are never two of them.
static body_result move_to(body *b, size_t capacity)
{
  size_t bytes;
  if (!checked_add_size(capacity, 2 * BODY_ALIGNMENT, &bytes))
    return BODY_NO_MEMORY;
  bool in_arena = b->data == NULL && fits_arena(b, capacity);
  size_t offset = b->memory == NULL ? 0 : (size_t)(b->data - (char *)b->memory);
  char *memory = in_arena            ? arena_allocate(b->arena, bytes)
                 : b->memory == NULL ? block_allocate(bytes)
                                     : block_grow(b->memory, b->memory_size, bytes);
  if (memory == NULL)
    return BODY_NO_MEMORY;
  char *data = align(memory, b->aligned_at);
  if (b->size > 0 && b->memory == NULL)
    memcpy(data, b->data, b->size);
  else if (b->size > 0 && data != memory + offset)
    memmove(data, memory + offset, b->size);
  b->memory = in_arena ? NULL : memory;
  b->memory_size = bytes;
  b->data = data;
  b->capacity = capacity;
  return BODY_OK;
}

// False: the pool has no room.
static bool move_to_pool(body *b, size_t capacity)
{
  size_t bytes;
  if (b->pool == NULL || !checked_add_size(capacity, 2 * BODY_ALIGNMENT, &bytes))
    return false;
  b->memory = b->pool->take(b->pool_owner, bytes);
  if (b->memory == NULL)
    return false;
  b->in_pool = true;
  b->memory_size = bytes;
  b->data = align(b->memory, b->aligned_at);
  b->capacity = b->max_size = capacity;
  return true;
}

// Makes room for `size` more bytes.
static body_result grow(body *b, size_t size)
{
  size_t needed;
  if (!checked_add_size(b->size, size, &needed) || needed > b->max_size)
    return BODY_TOO_LARGE;
  if (needed <= b->capacity)
    return BODY_OK;
  size_t doubled = b->capacity < FIRST_BYTES ? FIRST_BYTES : b->capacity;
  if (!checked_multiply_size(doubled, 2, &doubled) || doubled > b->max_size)
    doubled = b->max_size;
  return move_to(b, needed > doubled ? needed : doubled);
}

void body_prefer(body *b, const body_pool *pool, void *owner)
{
  b->pool = pool;
  b->pool_owner = owner;
}

body_result body_begin(body *b, size_t expected, size_t aligned_at)
{
  if (expected > b->max_size)
    return BODY_TOO_LARGE;
  bool in_arena = fits_arena(b, expected);
  bool counted = !in_arena && expected >= b->rules->counted_from;
  if (counted && !budget_has_room(b->budget, expected))
    return BODY_OVER_BUDGET;
  // An announcement costs the client nothing: beyond half of the budget, bytes count as they
  // arrive.
  bool announced = counted && budget_take_announced(b->budget, expected);
  if (announced)
    b->reserved = b->reserved_for = expected;
  size_t first = b->rules->unannounced_room;
  b->aligned_at = aligned_at;
  if (announced && move_to_pool(b, expected))
    return BODY_OK;
  return move_to(b, announced || in_arena || expected < first ? expected : first);
}

static bool is_surplus_piece(body *b, size_t size)
{
  return b->chunked && size < SHORT_PIECE_BYTES && ++b->pieces > BODY_MAX_CHUNKS;
}

body_result body_drop(body *b, size_t size)
{
  if (is_surplus_piece(b, size))
    return BODY_TOO_MANY_CHUNKS;
  if (size > b->max_size - b->dropped)
    return BODY_TOO_LARGE;
  b->dropped += size;
  return BODY_OK;
}

body_result body_append(body *b, const char *data, size_t size)
{
  if (is_surplus_piece(b, size))
    return BODY_TOO_MANY_CHUNKS;
  body_result grown = grow(b, size);
  if (grown == BODY_OK)
    grown = cover(b, b->size + size);
  if (grown != BODY_OK)
    return grown;
  memcpy(b->data + b->size, data, size);
  b->size += size;
  return BODY_OK;
}

body_result body_finish(body *b)
{
  if (b->data == NULL) {
    body_result moved = move_to(b, 0);
    if (moved != BODY_OK)
      return moved;
  }
  memset(b->data + b->size, 0, BODY_ALIGNMENT);
  return BODY_OK;
}

void body_discard(body *b, size_t offset, size_t size)
{
  if (b->memory != NULL && !b->in_pool)
    block_discard(b->memory, b->memory_size, b->data + offset, size);
}

// --- Unpacking

struct unpacking {
  z_stream stream;
  body *packed; // borrowed
  body plain;
  bool several; // several streams may follow one another
};

void unpacking_free(unpacking *u)
{
  if (u == NULL)
    return;
  inflateEnd(&u->stream);
  body_fini(&u->plain);
  free(u);
}

body_result unpacking_new(body *b, content_coding coding, bool strict, size_t max_size,
                          size_t guess, unpacking **result)
{
  *result = NULL;
  if (b->size > UINT32_MAX)
    return BODY_TOO_LARGE;
  unpacking *u = calloc(1, sizeof(*u));
  if (u == NULL)
    return BODY_NO_MEMORY;
  const int any_format = 32, gzip = 16; // of zlib
  int format = !strict ? any_format : coding == CODING_GZIP ? gzip : 0;
  u->packed = b;
  u->several = coding == CODING_GZIP && !strict;
  u->stream.next_in = (Bytef *)b->data;
  u->stream.avail_in = (uInt)b->size;
  body_init(&u->plain, b->budget, b->arena, max_size);
  body_result begun = body_begin(&u->plain, guess, b->aligned_at);
  if (begun == BODY_OK && inflateInit2(&u->stream, MAX_WBITS + format) != Z_OK)
    begun = BODY_NO_MEMORY;
  if (begun == BODY_OK)
    *result = u;
  else
    unpacking_free(u);
  return begun;
}

// Gives the stream the free room of the plain body. When the body is full, the stream gets one
// spare byte: if it ends without writing it, the body has exactly the largest size.
static body_result inflate_some(body *b, z_stream *stream, int *status)
{
  Bytef spare;
  bool full = b->size == b->max_size;
  body_result grown = full || b->size < b->capacity ? BODY_OK : grow(b, 1);
  if (grown == BODY_OK && !full)
    grown = cover(b, b->size + 1);
  if (grown != BODY_OK)
    return grown;
  size_t counted = b->memory == NULL ? b->capacity : b->reserved_for;
  size_t room = full ? 1 : counted - b->size;
  uInt part = room > UINT32_MAX ? UINT32_MAX : (uInt)room;
  stream->next_out = full ? &spare : (Bytef *)b->data + b->size;
  stream->avail_out = part;
  *status = inflate(stream, Z_NO_FLUSH);
  size_t written = part - stream->avail_out;
  if (full && written > 0)
    return BODY_TOO_LARGE;
  b->size += written;
  return BODY_OK;
}

body_result unpacking_run(unpacking *u, size_t enough, bool *done)
{
  z_stream *stream = &u->stream;
  for (*done = false; !*done && u->plain.size < enough;) {
    int status;
    body_result some = inflate_some(&u->plain, stream, &status);
    if (some != BODY_OK)
      return some;
    if (status == Z_STREAM_END) {
      *done = stream->avail_in == 0;
      if (!*done && (!u->several || inflateReset(stream) != Z_OK))
        return BODY_CORRUPT;
    } else if (status == Z_MEM_ERROR) {
      return BODY_NO_MEMORY;
    } else if (status != Z_OK || (stream->avail_in == 0 && stream->avail_out != 0)) {
      return BODY_CORRUPT;
    }
  }
  if (*done) {
    release(u->packed);
    *u->packed = u->plain;
    u->plain = (body){0};
  }
  return BODY_OK;
}

body_result body_inflate(body *b, content_coding coding)
{
  bool done;
  size_t guess;
  unpacking *u;
  if (!checked_multiply_size(b->size, 4, &guess) || guess > b->max_size)
    guess = b->max_size;
  body_result result = unpacking_new(b, coding, false, b->max_size, guess, &u);
  if (result == BODY_OK)
    result = unpacking_run(u, SIZE_MAX, &done);
  if (result == BODY_OK)
    result = body_finish(b);
  unpacking_free(u);
  return result;
}

body_result body_fit(body *b)
{
  body fitted = *b;
  assert(!b->in_pool); // only unpacked bodies are fitted, and they are never in a pool
  fitted.memory = fitted.data = NULL;
  fitted.aligned_at = b->size;
  fitted.size = 0;
  body_result moved = move_to(&fitted, b->size);
  if (moved != BODY_OK)
    return moved;
  memcpy(fitted.data, b->data, b->size);
  fitted.size = fitted.reserved = fitted.reserved_for = b->size;
  b->reserved -= b->size;
  release(b);
  *b = fitted;
  return BODY_OK;
}
