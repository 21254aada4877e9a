// SPDX-License-Identifier: Apache-2.0
// Long arrays of numbers: what they become, and what is said of a bad one, does not depend on the
// parts that they are read and printed in.
#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/number.h"
#include "frontend/common/json/json_tensor.h"
#include "frontend/common/json/number_array.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT 1000000u // about 7 MB of text: two stretches

// ---- a host ----

static size_t parts_run;

// The last part first: none may need what another one did.
static void run_backwards(void *pool, size_t count, parallel_part *part, void *context)
{
  (void)pool;
  for (size_t i = count; i-- > 0; parts_run++)
    part(context, i);
}

static const parallel backwards = {.run = run_backwards};

// What was given up is spoilt.
static void spoil(void *context, const char *begin, const char *end)
{
  *(size_t *)context = (size_t)(end - begin);
  memset((char *)(uintptr_t)begin, 'x', (size_t)(end - begin));
}

// ---- arrays ----

typedef struct array {
  buffer text;
  size_t *at; // where each element stands
} array;

// 0, 1, 2, … with `separator` between them; `row`: so many in a row, 0: one row.
static array make_array(const char *separator, size_t row)
{
  array a = {.text = BUFFER_EMPTY, .at = calloc(COUNT, sizeof(size_t))};
  assert_non_null(a.at);
  buffer_append_text(&a.text, row > 0 ? "[[" : "[");
  for (size_t i = 0; i < COUNT; i++) {
    if (i > 0)
      buffer_append_text(&a.text, row > 0 && i % row == 0 ? "],[" : separator);
    a.at[i] = a.text.size;
    buffer_append_format(&a.text, i % 1000 == 999 ? "%zue0" : "%zu", i); // some unusual ones
  }
  buffer_append_text(&a.text, row > 0 ? "]]" : "]");
  return a;
}

static void free_array(array *a)
{
  buffer_fini(&a->text);
  free(a->at);
}

// Reads it as `count` elements and returns the error; `released`: how much was given up.
static error *read_array(const array *a, TRITONSERVER_DataType datatype, size_t count,
                         arena *memory, const void **data, size_t *released)
{
  const json_host host = {.parallel = &backwards, .release_text = spoil, .context = released};
  static const char zeroes[NUMBER_BYTES_BEHIND];
  char *text = arena_allocate(memory, a->text.size + sizeof(zeroes));
  assert_non_null(text);
  memcpy(text, a->text.data, a->text.size);
  memcpy(text + a->text.size, zeroes, sizeof(zeroes));
  json_cursor c = {
      .begin = text, .at = text, .end = text + a->text.size, .arena = memory, .host = &host};
  const json_path place = {.key = "data", .key_size = 4};
  size_t size;
  parts_run = 0;
  *released = 0;
  error *e = json_tensor_read(&c, &place, datatype, count, data, &size);
  if (e == NULL) {
    assert_ptr_equal(c.at, c.end);
    assert_int_equal(size, count * 4);
  }
  return e;
}

static void assert_counts_up(const array *a)
{
  arena memory;
  const void *data;
  size_t released;
  arena_init(&memory, NULL, 0);
  error *e = read_array(a, TRITONSERVER_TYPE_FP32, COUNT, &memory, &data, &released);
  if (e != NULL)
    fail_msg("refused: %s", error_message(e));
  for (size_t i = 0; i < COUNT; i++)
    assert_true(((const float *)data)[i] == (float)i);
  assert_in_range(released, a->text.size / 2, a->text.size);
  arena_fini(&memory);
}

static void assert_refused(const array *a, size_t count, const char *expected)
{
  arena memory;
  const void *data;
  size_t released;
  arena_init(&memory, NULL, 0);
  error *e = read_array(a, TRITONSERVER_TYPE_INT32, count, &memory, &data, &released);
  assert_non_null(e);
  if (strncmp(error_message(e), expected, strlen(expected)) != 0)
    fail_msg("%s\ninstead of: %s", error_message(e), expected);
  error_free(e);
  arena_fini(&memory);
}

// ---- reading ----

static void arrays_read_in_parts_are_whole(void **state)
{
  (void)state;
  static const struct {
    const char *separator;
    size_t row;
    bool in_parts;
  } cases[] = {{",", 0, true},  {", ", 0, true},   {",", COUNT / 2, true}, {", ", 1000, false},
               {",", 1, false}, {",  ", 0, false}, {"\n,\n", 0, false}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    array a = make_array(cases[i].separator, cases[i].row);
    assert_counts_up(&a);
    if (cases[i].in_parts)
      assert_true(parts_run >= 2 * (a.text.size / NUMBER_ARRAY_PART_BYTES)); // counted and read
    else
      assert_true(parts_run <= 2 * NUMBER_ARRAY_PARTS); // one vain attempt at most
    free_array(&a);
  }
}

static void the_first_bad_element_is_named_wherever_it_stands(void **state)
{
  (void)state;
  char expected[256];
  array a = make_array(",", 0);
  const size_t places[] = {0, 1, 75000, 75001, 500001, COUNT - 1};
  for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
    char *element = a.text.data + a.at[places[i]];
    const char good = *element;
    *element = 'x';
    a.text.data[a.at[COUNT - 1]] = 'x'; // one more behind it
    snprintf(expected, sizeof(expected),
             "failed to parse the request JSON buffer: in 'data[%zu]': expected an integer in "
             "[-2147483648, 2147483647], got 'x",
             places[i]);
    assert_refused(&a, COUNT, expected);
    a.text.data[a.at[COUNT - 1]] = '9';
    *element = good;
  }
  free_array(&a);
}

static void each_place_of_a_cut_may_hold_the_bad_element(void **state)
{
  (void)state;
  char expected[256];
  array a = make_array(",", 0);
  size_t i = 0;
  while (a.at[i] < NUMBER_ARRAY_PART_BYTES - 8)
    i++;
  for (size_t last = i + 5; i < last; i++) {
    char *comma = a.text.data + a.at[i + 1] - 1;
    *comma = ';';
    snprintf(expected, sizeof(expected),
             "failed to parse the request JSON buffer: in 'data': expected ',' or ']', got ';%zu",
             i + 1);
    assert_refused(&a, COUNT, expected);
    *comma = ',';
  }
  free_array(&a);
}

static void counts_are_checked_as_in_short_arrays(void **state)
{
  (void)state;
  array a = make_array(", ", 0);
  assert_refused(&a, COUNT - 1,
                 "Unable to parse 'data': Shape does not match true shape of 'data' field: data: "
                 "expected "
                 "999999 elements, got at least 1000000");
  assert_refused(&a, COUNT + 1,
                 "Unable to parse 'data': Shape does not match true shape of 'data' field: data: "
                 "expected "
                 "1000001 elements, got 1000000");
  assert_refused(&a, 100,
                 "Unable to parse 'data': Shape does not match true shape of 'data' field: data: "
                 "expected "
                 "100 elements, got at least 101");
  free_array(&a);
}

// ---- printing ----

static void arrays_printed_in_parts_are_those_printed_by_one(void **state)
{
  (void)state;
  const size_t part = NUMBER_ARRAY_PART_ELEMENTS;
  const size_t counts[] = {part - 1, part,         part + 1, 2 * part + 7,
                           8 * part, 8 * part + 1, 9 * part, 17 * part + 1};
  int32_t *values = calloc(17 * part + 1, sizeof(int32_t));
  assert_non_null(values);
  for (size_t i = 0; i < 17 * part + 1; i++)
    values[i] = (int32_t)(i * 2654435761u) >> i % 31; // of all lengths
  for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
    AUTO_BUFFER buffer expected = BUFFER_EMPTY;
    AUTO_BUFFER buffer text = BUFFER_EMPTY;
    for (size_t k = 0; k < counts[i]; k++)
      buffer_append_format(&expected, "%c%d", k == 0 ? '[' : ',', values[k]);
    buffer_append_char(&expected, ']');
    parts_run = 0;
    assert_null(json_tensor_write(TRITONSERVER_TYPE_INT32, values, counts[i] * 4, counts[i],
                                  &backwards, &text));
    assert_int_equal(parts_run > 0, counts[i] > NUMBER_ARRAY_PARTS * part);
    assert_int_equal(text.size, expected.size);
    assert_memory_equal(text.data, expected.data, text.size);
  }
  free(values);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(arrays_read_in_parts_are_whole),
      cmocka_unit_test(the_first_bad_element_is_named_wherever_it_stands),
      cmocka_unit_test(each_place_of_a_cut_may_hold_the_bad_element),
      cmocka_unit_test(counts_are_checked_as_in_short_arrays),
      cmocka_unit_test(arrays_printed_in_parts_are_those_printed_by_one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
