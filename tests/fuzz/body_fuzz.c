// SPDX-License-Identifier: Apache-2.0
// A body in pieces of any size, with any limits, plain or packed, against the same done plainly:
// pieces put together, and unpacked by zlib in one go. The first bytes are limits and coding, what
// is left is the body; pieces have the sizes that its bytes say.
#include "base/arena.h"
#include "base/buffer.h"
#include "frontend/common/net/body.h"
#include "frontend/common/net/compress.h"
#include "fuzz.h"

#include <zlib.h>

#define MAX_BYTES ((size_t)1 << 20)

typedef struct plan {
  size_t max_size;
  size_t budget;
  size_t expected; // what the client says
  bool chunked;
  content_coding coding;
  size_t aligned_at;
  size_t empty_pieces; // before the others
} plan;

static plan take_plan(fuzz_input *input)
{
  static const content_coding codings[] = {CODING_IDENTITY, CODING_GZIP, CODING_DEFLATE};
  const uint8_t flags = fuzz_byte(input);
  plan p = {.chunked = flags & 1, .coding = codings[(flags >> 1) % 3]};
  p.max_size = fuzz_byte(input);
  p.max_size |= (size_t)fuzz_byte(input) << 8;
  p.budget = (flags & 8) != 0 ? SIZE_MAX : (size_t)fuzz_byte(input) << 10;
  p.expected = (flags & 16) != 0 ? (size_t)fuzz_byte(input) << 4 : 0;
  p.aligned_at = fuzz_byte(input);
  p.empty_pieces = flags >> 5 == 7 ? BODY_MAX_CHUNKS - 2 : 0;
  return p;
}

static void check_finished(const body *b, const char *expected, size_t size, const plan *p)
{
  CHECK(b->size == size && b->size <= p->max_size);
  CHECK(size == 0 || memcmp(b->data, expected, size) == 0);
  CHECK(((uintptr_t)b->data + p->aligned_at) % BODY_ALIGNMENT == 0);
  for (size_t i = 0; i < BODY_ALIGNMENT; i++)
    CHECK(b->data[b->size + i] == 0);
}

// A refusal must have its reason.
static void check_refusal(body_result result, size_t size, const plan *p)
{
  CHECK(result == BODY_TOO_LARGE || result == BODY_OVER_BUDGET);
  CHECK(result != BODY_TOO_LARGE || size > p->max_size);
  CHECK(result != BODY_OVER_BUDGET || p->budget != SIZE_MAX);
}

// zlib in one go: true when `text` is one or, of gzip, several streams and nothing else.
static bool unpack(slice text, content_coding coding, Bytef *to, size_t room, size_t *size)
{
  z_stream stream = {.next_in = (Bytef *)text.data,
                     .avail_in = (uInt)text.size,
                     .next_out = to,
                     .avail_out = (uInt)room};
  CHECK(inflateInit2(&stream, MAX_WBITS + 32) == Z_OK);
  int status = inflate(&stream, Z_FINISH);
  while (status == Z_STREAM_END && stream.avail_in > 0 && coding == CODING_GZIP) {
    CHECK(inflateReset(&stream) == Z_OK);
    status = inflate(&stream, Z_FINISH);
  }
  *size = room - stream.avail_out;
  const bool whole = status == Z_STREAM_END && stream.avail_in == 0;
  inflateEnd(&stream);
  return whole;
}

static void check_unpacked(body *b, slice packed, const plan *p)
{
  static Bytef expected[MAX_BYTES];
  size_t size;
  const body_result result = body_inflate(b, p->coding);
  if (!unpack(packed, p->coding, expected, sizeof(expected), &size)) {
    CHECK(result == BODY_CORRUPT || result == BODY_OVER_BUDGET || size > p->max_size);
    return;
  }
  if (result == BODY_OK)
    check_finished(b, (char *)expected, size, p);
  else
    check_refusal(result, size, p);
}

// Hands the pieces over; *offered is how much that was, *short_pieces how many count as chunks.
static body_result append_pieces(body *b, fuzz_input pieces, const plan *p, size_t *offered,
                                 size_t *short_pieces)
{
  body_result result = BODY_OK;
  *short_pieces = 0;
  for (size_t i = 0; i < p->empty_pieces && result == BODY_OK; i++, ++*short_pieces)
    result = body_append(b, "", 0);
  *offered = 0;
  while (result == BODY_OK && pieces.size > 0) {
    const slice piece = fuzz_take(&pieces, (size_t)pieces.data[0] * 8 + 1);
    *offered += piece.size;
    *short_pieces += piece.size < 1024;
    result = body_append(b, piece.data, piece.size);
  }
  return result;
}

static void *take_of_pool(void *used, size_t size)
{
  *(size_t *)used += size;
  void *memory = malloc(size);
  CHECK(memory != NULL);
  return memset(memory, 0xa5, size);
}

static void give_back_to_pool(void *used, void *memory, size_t size)
{
  CHECK(*(size_t *)used == size);
  *(size_t *)used = 0;
  free(memory);
}

static void check_body(fuzz_input input)
{
  static const body_pool pool = {take_of_pool, give_back_to_pool};
  size_t pool_used = 0;
  plan p = take_plan(&input);
  byte_budget budget = {.limit = p.budget};
  arena a;
  arena_init(&a, NULL, 0);
  body b;
  body_init(&b, &budget, &a, p.max_size);
  const slice all = {(const char *)input.data, input.size};
  b.chunked = p.chunked;
  if (p.aligned_at % 2 == 1)
    body_prefer(&b, &pool, &pool_used);
  body_result result = body_begin(&b, p.expected, p.aligned_at);
  if (b.in_pool)
    p.max_size = p.expected;
  size_t offered = p.expected, short_pieces = 0;
  if (result == BODY_OK)
    result = append_pieces(&b, input, &p, &offered, &short_pieces);
  if (result == BODY_OK)
    result = body_finish(&b);
  CHECK((result == BODY_TOO_MANY_CHUNKS) == (p.chunked && short_pieces > BODY_MAX_CHUNKS));
  if (result != BODY_OK && result != BODY_TOO_MANY_CHUNKS)
    check_refusal(result, offered, &p);
  else if (result == BODY_OK)
    check_finished(&b, all.data, all.size, &p);
  CHECK(budget.used <= p.budget);
  if (result == BODY_OK && p.coding != CODING_IDENTITY)
    check_unpacked(&b, all, &p);
  body_fini(&b);
  CHECK(budget.used == 0 && pool_used == 0);
  arena_fini(&a);
}

// What a reply is packed to unpacks to the same.
static void check_reply(slice all, content_coding coding)
{
  const size_t half = all.size / 2;
  const slice parts[] = {{all.data, half}, {all.data + half, all.size - half}};
  AUTO_BUFFER buffer packed = BUFFER_EMPTY;
  CHECK(compress_parts(coding, COMPRESS_FAST, parts, 2, &packed));
  byte_budget budget = {.limit = SIZE_MAX};
  arena a;
  arena_init(&a, NULL, 0);
  body b;
  body_init(&b, &budget, &a, SIZE_MAX);
  CHECK(body_begin(&b, packed.size, 0) == BODY_OK);
  CHECK(body_append(&b, packed.data, packed.size) == BODY_OK);
  CHECK(body_finish(&b) == BODY_OK);
  CHECK(body_inflate(&b, coding) == BODY_OK);
  CHECK(b.size == all.size);
  CHECK(b.size == 0 || memcmp(b.data, all.data, b.size) == 0);
  body_fini(&b);
  arena_fini(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  check_body((fuzz_input){data, size});
  check_reply((slice){(const char *)data, size}, size % 2 == 0 ? CODING_GZIP : CODING_DEFLATE);
  return 0;
}
