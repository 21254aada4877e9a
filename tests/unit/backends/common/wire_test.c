// SPDX-License-Identifier: Apache-2.0
// The wire format of control parts: what is written reads back, and nobody goes past an end.
#include "wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void write_all(wire_writer *writer)
{
  wire_put_u8(writer, 200);
  wire_put_u32(writer, 4000000000U);
  wire_put_u64(writer, UINT64_MAX - 1);
  wire_put_i64(writer, INT64_MIN);
  wire_put_f64(writer, -0.5);
  wire_put_text(writer, "text", 4);
  wire_put_text(writer, NULL, 0);
  wire_put_u32(writer, 2); // a count of what follows
  wire_put_u8(writer, 7);
  wire_put_u8(writer, 8);
}

static size_t needed(void)
{
  wire_writer counting = {.to = NULL};
  write_all(&counting);
  return counting.size;
}

static void values_read_back(void **state)
{
  (void)state;
  const size_t size = needed();
  assert_int_equal(size, 1 + 4 + 8 + 8 + 8 + 8 + 4 + 4 + 2);
  uint8_t *bytes = malloc(size);
  wire_writer writer = {.to = bytes, .room = size};
  write_all(&writer);
  assert_int_equal(writer.size, size);

  wire_reader reader = {.at = bytes, .end = bytes + size};
  size_t length;
  assert_int_equal(wire_get_u8(&reader), 200);
  assert_int_equal(wire_get_u32(&reader), 4000000000U);
  assert_true(wire_get_u64(&reader) == UINT64_MAX - 1);
  assert_true(wire_get_i64(&reader) == INT64_MIN);
  assert_true(wire_get_f64(&reader) == -0.5);
  assert_memory_equal(wire_get_text(&reader, &length), "text", 4);
  assert_int_equal(length, 4);
  assert_non_null(wire_get_text(&reader, &length));
  assert_int_equal(length, 0);
  assert_int_equal(wire_get_count(&reader, 1), 2);
  assert_int_equal(wire_get_u8(&reader), 7);
  assert_int_equal(wire_get_u8(&reader), 8);
  assert_false(reader.bad);
  assert_ptr_equal(reader.at, reader.end);
  free(bytes);
}

// The sanitizers watch the bytes behind the room.
static void a_writer_without_room_says_what_is_needed(void **state)
{
  (void)state;
  for (size_t room = 0; room < needed(); room++) {
    uint8_t *bytes = malloc(room + 1);
    bytes[room] = 99;
    wire_writer writer = {.to = bytes, .room = room};
    write_all(&writer);
    assert_int_equal(writer.size, needed());
    assert_int_equal(bytes[room], 99);
    free(bytes);
  }
}

static void a_text_that_is_too_long_never_fits(void **state)
{
  (void)state;
  wire_writer writer = {.to = NULL};
  wire_put_text(&writer, "", (size_t)UINT32_MAX + 1);
  wire_put_u64(&writer, 1);
  assert_true(writer.size == SIZE_MAX);
}

static void a_reader_stops_at_the_end(void **state)
{
  (void)state;
  const size_t size = needed();
  uint8_t *whole = malloc(size);
  wire_writer writer = {.to = whole, .room = size};
  write_all(&writer);
  for (size_t cut = 0; cut < size; cut++) {
    uint8_t *bytes = malloc(cut + 1);
    memcpy(bytes, whole, cut);
    wire_reader reader = {.at = bytes, .end = bytes + cut};
    size_t length;
    wire_get_u8(&reader), wire_get_u32(&reader), wire_get_u64(&reader), wire_get_i64(&reader),
        wire_get_f64(&reader);
    wire_get_text(&reader, &length);
    wire_get_text(&reader, &length);
    wire_get_count(&reader, 1);
    wire_get_u8(&reader), wire_get_u8(&reader);
    assert_true(reader.bad);
    assert_true(reader.at >= bytes && reader.at <= reader.end);
    assert_int_equal(wire_get_u64(&reader), 0); // and so it stays
    free(bytes);
  }
  free(whole);
}

static void a_text_beyond_the_end_is_bad(void **state)
{
  (void)state;
  const uint8_t bytes[] = {255, 255, 255, 255, 'a', 'b'};
  wire_reader reader = {.at = bytes, .end = bytes + sizeof(bytes)};
  size_t length = 5;
  assert_null(wire_get_text(&reader, &length));
  assert_int_equal(length, 0);
  assert_true(reader.bad);
}

static void a_count_of_more_than_can_be_there_is_bad(void **state)
{
  (void)state;
  const uint8_t bytes[4 + 16] = {2, 0, 0, 0};
  wire_reader fits = {.at = bytes, .end = bytes + sizeof(bytes)};
  assert_int_equal(wire_get_count(&fits, 8), 2);
  assert_false(fits.bad);
  wire_reader too_many = {.at = bytes, .end = bytes + sizeof(bytes)};
  assert_int_equal(wire_get_count(&too_many, 9), 0);
  assert_true(too_many.bad);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_read_back),
      cmocka_unit_test(a_writer_without_room_says_what_is_needed),
      cmocka_unit_test(a_text_that_is_too_long_never_fits),
      cmocka_unit_test(a_reader_stops_at_the_end),
      cmocka_unit_test(a_text_beyond_the_end_is_bad),
      cmocka_unit_test(a_count_of_more_than_can_be_there_is_bad),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
