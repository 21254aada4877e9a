// Takes request bodies into memory. Called on the loop thread that owns the request.
#include "frontend/http/body.h"

#include "base/checked.h"
#include "base/pages.h"

#include <stdint.h>
#include <stdlib.h>
#include <zlib.h>

#define ARENA_MAX_BYTES   2048 // larger bodies have a block of their own
#define FIRST_BYTES       (16u << 10)
#define SHORT_PIECE_BYTES 1024 // a longer piece may be part of a chunk: it is not counted

void body_init(body *b, body_budget *budget, arena *a, size_t max_size)
{
  *b = (body){.budget = budget, .arena = a, .max_size = max_size};
}

static bool reserve(body *b, size_t size)
{
  size_t before = atomic_fetch_add_explicit(&b->budget->used, size, memory_order_relaxed);
  if (before > b->budget->limit || size > b->budget->limit - before) {
    atomic_fetch_sub_explicit(&b->budget->used, size, memory_order_relaxed);
    return false;
  }
  b->reserved += size;
  return true;
}

body_result body_reserve(body *b, size_t size)
{
  return reserve(b, size) ? BODY_OK : BODY_OVER_BUDGET;
}

static void release(body *b)
{
  free(b->memory);
  b->memory = NULL;
  b->data = NULL;
  atomic_fetch_sub_explicit(&b->budget->used, b->reserved, memory_order_relaxed);
  b->reserved = 0;
}

void body_fini(body *b)
{
  if (b->budget != NULL)
    release(b);
}

// Where in `memory` the body starts so that its byte `aligned_at` is aligned.
static char *align(char *memory, size_t aligned_at)
{
  uintptr_t misaligned = ((uintptr_t)memory + aligned_at) % BODY_ALIGNMENT;
  return memory + (misaligned == 0 ? 0 : BODY_ALIGNMENT - misaligned);
}

// Moves the body to memory for `capacity` bytes.
static body_result move_to(body *b, size_t capacity)
{
  size_t bytes;
  if (!checked_add_size(capacity, 2 * BODY_ALIGNMENT, &bytes))
    return BODY_NO_MEMORY;
  bool in_arena = b->data == NULL && capacity <= ARENA_MAX_BYTES;
  if (!in_arena && !reserve(b, bytes))
    return BODY_OVER_BUDGET;
  char *memory = in_arena ? arena_allocate(b->arena, bytes) : malloc(bytes);
  if (memory == NULL)
    return BODY_NO_MEMORY;
  pages_prefer_large(memory, bytes);
  char *data = align(memory, b->aligned_at);
  if (b->size > 0)
    memcpy(data, b->data, b->size);
  if (b->memory != NULL) {
    free(b->memory);
    size_t old_bytes = b->capacity + 2 * BODY_ALIGNMENT;
    b->reserved -= old_bytes;
    atomic_fetch_sub_explicit(&b->budget->used, old_bytes, memory_order_relaxed);
  }
  b->memory = in_arena ? NULL : memory;
  b->data = data;
  b->capacity = capacity;
  return BODY_OK;
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
  // The last step is from at most half the limit, so that both blocks are within it.
  if (!checked_multiply_size(doubled, 2, &doubled) || doubled > b->max_size / 2)
    doubled = b->max_size;
  return move_to(b, needed > doubled ? needed : doubled);
}

body_result body_begin(body *b, size_t expected, size_t aligned_at)
{
  if (expected > b->max_size)
    return BODY_TOO_LARGE;
  b->aligned_at = aligned_at;
  return move_to(b, expected);
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

// Gives `stream` the free room of `b`, or `spare` when `b` holds all that it may: a stream that
// then ends without writing to it had exactly the largest size.
static body_result inflate_some(body *b, z_stream *stream, Bytef *spare, int *status)
{
  bool full = b->size == b->max_size;
  body_result grown = full || b->size < b->capacity ? BODY_OK : grow(b, 1);
  if (grown != BODY_OK)
    return grown;
  size_t room = full ? 1 : b->capacity - b->size;
  uInt part = room > UINT32_MAX ? UINT32_MAX : (uInt)room;
  stream->next_out = full ? spare : (Bytef *)b->data + b->size;
  stream->avail_out = part;
  *status = inflate(stream, Z_NO_FLUSH);
  size_t written = part - stream->avail_out;
  if (full && written > 0)
    return BODY_TOO_LARGE;
  b->size += written;
  return BODY_OK;
}

// Appends to `b` what `stream` gives; BODY_OK at its end.
static body_result inflate_all(body *b, z_stream *stream, content_coding coding)
{
  Bytef spare;
  for (;;) {
    int status;
    body_result some = inflate_some(b, stream, &spare, &status);
    if (some != BODY_OK)
      return some;
    if (status == Z_STREAM_END) {
      if (stream->avail_in == 0)
        return BODY_OK;
      // gzip allows several members one after the other.
      if (coding != CODING_GZIP || inflateReset(stream) != Z_OK)
        return BODY_CORRUPT;
    } else if (status == Z_MEM_ERROR) {
      return BODY_NO_MEMORY;
    } else if (status != Z_OK || (stream->avail_in == 0 && stream->avail_out != 0)) {
      return BODY_CORRUPT;
    }
  }
}

static body_result inflate_into(body *plain, const body *b, content_coding coding)
{
  size_t guess;
  if (!checked_multiply_size(b->size, 4, &guess) || guess > b->max_size / 2)
    guess = b->max_size;
  if (b->size > UINT32_MAX)
    return BODY_TOO_LARGE;
  body_result begun = body_begin(plain, guess, b->aligned_at);
  if (begun != BODY_OK)
    return begun;
  z_stream stream = {.next_in = (Bytef *)b->data, .avail_in = (uInt)b->size};
  // As Triton, take either format for either name.
  if (inflateInit2(&stream, MAX_WBITS + 32) != Z_OK)
    return BODY_NO_MEMORY;
  body_result result = inflate_all(plain, &stream, coding);
  inflateEnd(&stream);
  return result;
}

body_result body_inflate(body *b, content_coding coding)
{
  body plain;
  body_init(&plain, b->budget, b->arena, b->max_size);
  body_result result = inflate_into(&plain, b, coding);
  if (result == BODY_OK)
    result = body_finish(&plain);
  if (result != BODY_OK) {
    release(&plain);
    return result;
  }
  release(b);
  *b = plain;
  return BODY_OK;
}
