// Takes request bodies into memory. Called on the loop thread that owns the request.
#include "frontend/http/exchange/body.h"

#include "base/blocks.h"
#include "base/checked.h"

#include <stdint.h>
#include <zlib.h>

#define ARENA_MAX_BYTES   2048 // larger bodies have a block of their own
#define FIRST_BYTES       (16u << 10)
#define RESERVE_BYTES     (2u << 20) // at least so much is taken from the budget: a large page
#define SHORT_PIECE_BYTES 1024       // a longer piece may be part of a chunk: it is not counted

void body_init(body *b, byte_budget *budget, arena *a, size_t max_size)
{
  *b = (body){.budget = budget, .arena = a, .max_size = max_size};
}

body_result body_reserve_work(body *b, size_t size)
{
  if (!budget_take_work(b->budget, size))
    return BODY_OVER_BUDGET;
  b->reserved += size;
  return BODY_OK;
}

// Sees to it that the first `needed` bytes of the body are counted, and some more: their number is
// shared by all threads. What is in the arena is not counted.
static body_result cover(body *b, size_t needed)
{
  if (b->memory == NULL || needed <= b->reserved_for)
    return BODY_OK;
  size_t more = needed - b->reserved_for;
  size_t room = b->capacity - b->reserved_for;
  if (more < RESERVE_BYTES)
    more = room < RESERVE_BYTES ? room : RESERVE_BYTES;
  if (!budget_take_input(b->budget, more))
    return BODY_OVER_BUDGET;
  b->reserved += more;
  b->reserved_for += more;
  return BODY_OK;
}

static void release(body *b)
{
  block_free(b->memory, b->memory_size);
  b->memory = NULL;
  b->data = NULL;
  budget_give_back(b->budget, b->reserved);
  b->reserved = b->reserved_for = 0;
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

// Moves the body to memory for `capacity` bytes. A large block grows by moving its pages: never
// are there two of them.
static body_result move_to(body *b, size_t capacity)
{
  size_t bytes;
  if (!checked_add_size(capacity, 2 * BODY_ALIGNMENT, &bytes))
    return BODY_NO_MEMORY;
  bool in_arena = b->data == NULL && capacity <= ARENA_MAX_BYTES;
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

body_result body_begin(body *b, size_t expected, size_t aligned_at)
{
  if (expected > b->max_size)
    return BODY_TOO_LARGE;
  if (expected > ARENA_MAX_BYTES && !budget_has_room(b->budget, expected))
    return BODY_OVER_BUDGET;
  b->aligned_at = aligned_at;
  body_result moved = move_to(b, expected);
  if (moved == BODY_OK && b->memory != NULL && budget_take_announced(b->budget, expected))
    b->reserved = b->reserved_for = expected;
  return moved;
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
  if (b->memory != NULL)
    block_discard(b->memory, b->memory_size, b->data + offset, size);
}

// Gives `stream` the free room of `b`, or `spare` when `b` holds all that it may: a stream that
// then ends without writing to it had exactly the largest size.
static body_result inflate_some(body *b, z_stream *stream, Bytef *spare, int *status)
{
  bool full = b->size == b->max_size;
  body_result grown = full || b->size < b->capacity ? BODY_OK : grow(b, 1);
  if (grown == BODY_OK && !full)
    grown = cover(b, b->size + 1);
  if (grown != BODY_OK)
    return grown;
  size_t counted = b->memory == NULL ? b->capacity : b->reserved_for;
  size_t room = full ? 1 : counted - b->size;
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
  if (!checked_multiply_size(b->size, 4, &guess) || guess > b->max_size)
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
