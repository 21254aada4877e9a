// SPDX-License-Identifier: Apache-2.0
// Request messages of gRPC put together from pieces: however they are cut, packed or announced, and
// what of it counts for the budget.
#include "base/buffer.h"
#include "frontend/common/net/jobs.h"
#include "frontend/grpc/call/grpc_message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MIB ((size_t)1 << 20)

static void append_message(buffer *to, unsigned char flag, uint32_t announced, slice payload)
{
  const unsigned char prefix[MESSAGE_PREFIX_BYTES] = {
      flag, (unsigned char)(announced >> 24), (unsigned char)(announced >> 16),
      (unsigned char)(announced >> 8), (unsigned char)announced};
  buffer_append(to, prefix, sizeof(prefix));
  buffer_append_slice(to, payload);
}

static void append_packed(buffer *to, content_coding coding, slice payload)
{
  AUTO_BUFFER buffer packed = BUFFER_EMPTY;
  assert_true(compress_parts(coding, 1, &payload, 1, &packed));
  append_message(to, 1, (uint32_t)packed.size, buffer_view(&packed));
}

// Feeds the text in pieces of `step` bytes; the messages must be those of `expected`.
static void read_all(slice text, size_t step, content_coding coding, const slice *expected,
                     size_t count)
{
  byte_budget budget = {.limit = 64 * MIB};
  message_reader r = {.budget = &budget};
  size_t found = 0;
  while (text.size > 0) {
    size_t taken;
    grpc_message *complete;
    size_t size = text.size < step ? text.size : step;
    assert_int_equal(message_reader_take(&r, coding, text.data, size, &taken, &complete),
                     MESSAGE_OK);
    assert_true(taken > 0 && taken <= size);
    text = (slice){text.data + taken, text.size - taken};
    if (complete == NULL)
      continue;
    assert_true(found < count);
    assert_int_equal(complete->size, expected[found].size);
    assert_memory_equal(complete->data, expected[found].data, complete->size);
    assert_int_equal((uintptr_t)(complete->data + complete->size) % BODY_ALIGNMENT, 0);
    grpc_message_free(complete);
    found++;
  }
  assert_int_equal(found, count);
  assert_false(message_reader_is_inside(&r));
  message_reader_fini(&r);
  assert_int_equal(budget.used, 0);
}

static void messages_may_be_cut_anywhere(void **state)
{
  (void)state;
  char large[300];
  for (size_t i = 0; i < sizeof(large); i++)
    large[i] = (char)i;
  const slice expected[] = {
      SLICE("first"), SLICE(""), {large, sizeof(large)}, SLICE("x"), SLICE("")};
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  for (size_t i = 0; i < 5; i++)
    append_message(&text, 0, (uint32_t)expected[i].size, expected[i]);
  for (size_t step = 1; step <= text.size; step++)
    read_all(buffer_view(&text), step, CODING_IDENTITY, expected, 5);
}

static void packed_messages_may_be_cut_anywhere(void **state)
{
  (void)state;
  const slice expected[] = {SLICE("packed packed packed packed"), SLICE("plain"), SLICE("")};
  for (content_coding coding = CODING_GZIP; coding <= CODING_DEFLATE; coding++) {
    AUTO_BUFFER buffer text = BUFFER_EMPTY;
    append_packed(&text, coding, expected[0]);
    append_message(&text, 0, (uint32_t)expected[1].size, expected[1]);
    append_packed(&text, coding, expected[2]);
    for (size_t step = 1; step <= text.size; step++)
      read_all(buffer_view(&text), step, coding, expected, 3);
  }
}

static void large_messages_are_whole_in_any_pieces(void **state)
{
  (void)state;
  const size_t size = 5 * MIB + 3;
  char *large = malloc(size);
  for (size_t i = 0; i < size; i++)
    large[i] = (char)(i * 7 + i / 253);
  const slice expected = {large, size};
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  append_message(&text, 0, (uint32_t)size, expected);
  for (size_t step = 1000; step < size; step = step * 3 + 1)
    read_all(buffer_view(&text), step, CODING_IDENTITY, &expected, 1);
  free(large);
}

// Takes all of the text, and does what is left to workers.
static message_fault take_whole(message_reader *r, slice text, content_coding coding,
                                grpc_message **complete)
{
  size_t taken;
  message_fault fault = message_reader_take(r, coding, text.data, text.size, &taken, complete);
  if (fault == MESSAGE_OK && message_reader_is_unpacking(r)) {
    assert_null(*complete);
    fault = message_reader_unpack(r, complete);
  }
  assert_false(message_reader_is_unpacking(r));
  return fault;
}

// What a reader says to the text; nothing stays of it.
static message_fault fault_of(slice text, content_coding coding, size_t limit)
{
  byte_budget budget = {.limit = limit};
  message_reader r = {.budget = &budget};
  grpc_message *complete;
  message_fault fault = take_whole(&r, text, coding, &complete);
  assert_null(complete);
  message_reader_fini(&r);
  assert_int_equal(budget.used, 0);
  return fault;
}

static void what_is_no_message_is_told(void **state)
{
  (void)state;
  AUTO_BUFFER buffer packed = BUFFER_EMPTY, other = BUFFER_EMPTY, cut = BUFFER_EMPTY;
  append_packed(&packed, CODING_GZIP, SLICE("text"));
  append_packed(&other, CODING_DEFLATE, SLICE("text"));
  append_message(&cut, 1, 6, (slice){packed.data + MESSAGE_PREFIX_BYTES, 6});
  const struct {
    slice text;
    content_coding coding;
    message_fault fault;
  } rows[] = {
      {SLICE("\0\xff\xff\xff\xff"), CODING_IDENTITY, MESSAGE_TOO_LARGE},
      {SLICE("\0\x80\0\0\0"), CODING_IDENTITY, MESSAGE_TOO_LARGE},
      {SLICE("\0\x7f\xff\xff\xff"), CODING_IDENTITY, MESSAGE_OVER_BUDGET},
      {SLICE("\x02\0\0\0\1x"), CODING_IDENTITY, MESSAGE_BAD_FLAG},
      {SLICE("\xff\0\0\0\1x"), CODING_GZIP, MESSAGE_BAD_FLAG},
      {SLICE("\1\0\0\0\1x"), CODING_IDENTITY, MESSAGE_NO_CODING},
      {SLICE("\1\0\0\0\1x"), CODING_GZIP, MESSAGE_CORRUPT},
      {SLICE("\1\0\0\0\0"), CODING_DEFLATE, MESSAGE_CORRUPT},
      {buffer_view(&other), CODING_GZIP, MESSAGE_CORRUPT},
      {buffer_view(&cut), CODING_GZIP, MESSAGE_CORRUPT},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
    assert_int_equal(fault_of(rows[i].text, rows[i].coding, MIB), rows[i].fault);
}

static void bombs_stop_at_the_budget(void **state)
{
  (void)state;
  char *zeros = calloc(1, 32 * MIB);
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  append_packed(&text, CODING_GZIP, (slice){zeros, 32 * MIB});
  free(zeros);
  assert_int_equal(fault_of(buffer_view(&text), CODING_GZIP, 16 * MIB), MESSAGE_OVER_BUDGET);
}

// Far more than it was packed to: not beyond 64 MiB. What packs less may be larger.
static void what_unpacks_to_a_thousand_times_its_size_is_refused(void **state)
{
  (void)state;
  char *bytes = calloc(1, 66 * MIB);
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  append_packed(&text, CODING_GZIP, (slice){bytes, 66 * MIB});
  assert_int_equal(fault_of(buffer_view(&text), CODING_GZIP, 1024 * MIB), MESSAGE_BOMB);
  unsigned seed = 1;
  for (size_t i = 0; i < 66 * MIB; i += 64)
    bytes[i] = (char)rand_r(&seed);
  const slice expected = {bytes, 66 * MIB};
  AUTO_BUFFER buffer fair = BUFFER_EMPTY;
  append_packed(&fair, CODING_GZIP, expected);
  byte_budget budget = {.limit = 1024 * MIB};
  message_reader r = {.budget = &budget};
  grpc_message *complete;
  assert_int_equal(take_whole(&r, buffer_view(&fair), CODING_GZIP, &complete), MESSAGE_OK);
  assert_int_equal(complete->size, expected.size);
  grpc_message_free(complete);
  free(bytes);
}

// A loop unpacks 256 KiB; what becomes more is left to a worker, and so is what is more itself.
static void long_packed_messages_are_left_to_workers(void **state)
{
  (void)state;
  const struct {
    size_t size;
    bool random, is_long;
  } rows[] = {{JOBS_LOOP_BYTES - 1, false, false},
              {JOBS_LOOP_BYTES + 1, false, true},
              {64 * MIB, false, true},
              {JOBS_LOOP_BYTES - 1000, true, false},
              {2 * JOBS_LOOP_BYTES, true, true}};
  for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {
    unsigned seed = 1;
    char *bytes = calloc(1, rows[row].size);
    for (size_t i = 0; rows[row].random && i < rows[row].size; i++)
      bytes[i] = (char)rand_r(&seed);
    AUTO_BUFFER buffer text = BUFFER_EMPTY;
    append_packed(&text, CODING_DEFLATE, (slice){bytes, rows[row].size});
    byte_budget budget = {.limit = 1024 * MIB};
    message_reader r = {.budget = &budget};
    size_t taken;
    grpc_message *complete;
    assert_int_equal(
        message_reader_take(&r, CODING_DEFLATE, text.data, text.size, &taken, &complete),
        MESSAGE_OK);
    assert_int_equal(taken, text.size);
    assert_int_equal(message_reader_is_unpacking(&r), rows[row].is_long);
    assert_int_equal(message_reader_is_inside(&r), rows[row].is_long);
    assert_true(budget.used <= text.size + JOBS_LOOP_BYTES); // so far
    if (rows[row].is_long)
      assert_int_equal(message_reader_unpack(&r, &complete), MESSAGE_OK);
    assert_int_equal(complete->size, rows[row].size);
    assert_memory_equal(complete->data, bytes, rows[row].size);
    assert_false(message_reader_is_inside(&r));
    assert_int_equal(budget.used, rows[row].size);
    grpc_message_free(complete);
    message_reader_fini(&r);
    assert_int_equal(budget.used, 0);
    free(bytes);
  }
}

// A worker that never comes: the reader lets go of what it has.
static void a_long_message_that_nobody_unpacks_is_given_back(void **state)
{
  (void)state;
  char *zeros = calloc(1, 2 * JOBS_LOOP_BYTES);
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  append_packed(&text, CODING_GZIP, (slice){zeros, 2 * JOBS_LOOP_BYTES});
  byte_budget budget = {.limit = MIB};
  message_reader r = {.budget = &budget};
  size_t taken;
  grpc_message *complete;
  assert_int_equal(message_reader_take(&r, CODING_GZIP, text.data, text.size, &taken, &complete),
                   MESSAGE_OK);
  assert_true(message_reader_is_unpacking(&r));
  message_reader_fini(&r);
  assert_int_equal(budget.used, 0);
  free(zeros);
}

// While half of the budget is free, announcing takes it; beyond that, what comes does.
static void announcing_takes_half_of_the_budget_at_most(void **state)
{
  (void)state;
  byte_budget budget = {.limit = 10 * MIB};
  message_reader readers[100];
  size_t taken;
  grpc_message *complete;
  for (size_t i = 0; i < 100; i++) {
    readers[i] = (message_reader){.budget = &budget};
    assert_int_equal(message_reader_take(&readers[i], CODING_IDENTITY, "\0\0\x10\0\0", 5, &taken,
                                         &complete), // 1 MiB
                     MESSAGE_OK);
    assert_true(budget.used <= budget.limit / 2);
  }
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  char *bytes = calloc(1, 4 * MIB);
  append_message(&text, 0, 4 * MIB, (slice){bytes, 4 * MIB});
  message_reader honest = {.budget = &budget};
  assert_int_equal(
      message_reader_take(&honest, CODING_IDENTITY, text.data, text.size, &taken, &complete),
      MESSAGE_OK);
  assert_non_null(complete);
  grpc_message_free(complete);
  free(bytes);
  for (size_t i = 0; i < 100; i++)
    message_reader_fini(&readers[i]);
  message_reader_fini(&honest);
  assert_int_equal(budget.used, 0);
}

typedef struct told {
  unsigned times;
  size_t announced, there;
} told;

static void tell(void *context, grpc_message *m, slice first)
{
  told *t = context;
  assert_null(m->memory);
  *t = (told){t->times + 1, m->max_size, first.size};
}

static void who_wants_to_know_is_told_of_messages_that_are_not_packed(void **state)
{
  (void)state;
  byte_budget budget = {.limit = MIB};
  told t = {0};
  message_reader r = {.budget = &budget, .begins = tell, .begins_context = &t};
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  append_message(&text, 0, 300, SLICE("what is there of it"));
  size_t taken;
  grpc_message *complete;
  assert_int_equal(message_reader_take(&r, CODING_GZIP, text.data, text.size, &taken, &complete),
                   MESSAGE_OK);
  assert_true(t.times == 1 && t.announced == 300 && t.there == 19);
  message_reader_fini(&r);
  AUTO_BUFFER buffer packed = BUFFER_EMPTY;
  append_packed(&packed, CODING_GZIP, SLICE("packed"));
  r = (message_reader){.budget = &budget, .begins = tell, .begins_context = &t};
  assert_int_equal(
      message_reader_take(&r, CODING_GZIP, packed.data, packed.size, &taken, &complete),
      MESSAGE_OK);
  assert_int_equal(t.times, 1);
  grpc_message_free(complete);
  message_reader_fini(&r);
}

static void codings_have_names(void **state)
{
  (void)state;
  assert_int_equal(message_coding_of(SLICE("identity")), CODING_IDENTITY);
  assert_int_equal(message_coding_of(SLICE("gzip")), CODING_GZIP);
  assert_int_equal(message_coding_of(SLICE("deflate")), CODING_DEFLATE);
  assert_int_equal(message_coding_of(SLICE("gzi")), CODING_UNKNOWN);
  assert_int_equal(message_coding_of(SLICE("")), CODING_UNKNOWN);
  assert_true(message_coding_is_listed(SLICE("identity, gzip"), CODING_GZIP));
  assert_true(message_coding_is_listed(SLICE(" gzip ,x"), CODING_GZIP));
  assert_false(message_coding_is_listed(SLICE("gzip2, xgzip,,"), CODING_GZIP));
  assert_false(message_coding_is_listed(SLICE(""), CODING_DEFLATE));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(messages_may_be_cut_anywhere),
      cmocka_unit_test(packed_messages_may_be_cut_anywhere),
      cmocka_unit_test(large_messages_are_whole_in_any_pieces),
      cmocka_unit_test(what_is_no_message_is_told),
      cmocka_unit_test(bombs_stop_at_the_budget),
      cmocka_unit_test(what_unpacks_to_a_thousand_times_its_size_is_refused),
      cmocka_unit_test(long_packed_messages_are_left_to_workers),
      cmocka_unit_test(a_long_message_that_nobody_unpacks_is_given_back),
      cmocka_unit_test(announcing_takes_half_of_the_budget_at_most),
      cmocka_unit_test(who_wants_to_know_is_told_of_messages_that_are_not_packed),
      cmocka_unit_test(codings_have_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
