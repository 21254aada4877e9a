// SPDX-License-Identifier: Apache-2.0
// Numbers that a text begins with, read as Triton reads them.
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static void an_integer_is_read_up_to_what_follows(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    int64_t value;
    const char *rest;
  } rows[] = {{"8000", 8000, ""}, {" \t8", 8, ""},  {"+7", 7, ""},
              {"-1", -1, ""},     {"10s", 10, "s"}, {"0x10", 0, "x10"},
              {"1.5", 1, ".5"},   {"2:3", 2, ":3"}, {"-9223372036854775808", INT64_MIN, ""},
              {"5 6", 5, " 6"},   {"007", 7, ""}};
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    int64_t value = 0;
    const char *rest = NULL;
    assert_true(text_begins_int64(rows[i].text, &value, &rest));
    assert_int_equal(value, rows[i].value);
    assert_string_equal(rest, rows[i].rest);
  }
}

static void a_double_is_read_up_to_what_follows(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    double value;
    const char *rest;
  } rows[] = {{"8.0", 8, ""}, {".5", 0.5, ""},     {"1.", 1, ""},    {"+3e2x", 300, "x"},
              {"1e", 1, "e"}, {"-2E-1", -0.2, ""}, {"7e+", 7, "e+"}, {" 6.1.2", 6.1, ".2"}};
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    double value = 0;
    const char *rest = NULL;
    assert_true(text_begins_double(rows[i].text, &value, &rest));
    assert_true(value == rows[i].value);
    assert_string_equal(rest, rows[i].rest);
  }
}

static void what_does_not_begin_with_a_number_is_none(void **state)
{
  (void)state;
  static const char *const texts[] = {"",    " ",   "x1", "+",   "-",  "--1",
                                      "+-1", "- 1", "e5", "nan", "inf"};
  for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
    int64_t integer;
    double number;
    const char *rest;
    assert_false(text_begins_int64(texts[i], &integer, &rest));
    assert_false(text_begins_double(texts[i], &number, &rest));
  }
  int64_t integer;
  double number;
  const char *rest;
  assert_false(text_begins_int64("9223372036854775808", &integer, &rest));
  assert_false(text_begins_double("1e999", &number, &rest));
  assert_false(text_begins_double(".", &number, &rest));
}

static void bytes_may_have_a_unit(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    uint64_t bytes;
  } rows[] = {{"0", 0},
              {"1023", 1023},
              {"8G", UINT64_C(8) << 30},
              {"8g", UINT64_C(8) << 30},
              {"1K", 1024},
              {"3M", 3 << 20},
              {"2t", UINT64_C(2) << 40},
              {"16777215T", UINT64_C(16777215) << 40}};
  static const char *const wrong[] = {"",    "K",   "-1",        "+1",
                                      " 1",  "1 K", "1KB",       "1.5G",
                                      "0x1", "1P",  "16777216T", "18446744073709551616"};
  uint64_t bytes;
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    assert_true(text_to_bytes(slice_of(rows[i].text), &bytes));
    assert_true(bytes == rows[i].bytes);
  }
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
    assert_false(text_to_bytes(slice_of(wrong[i]), &bytes));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_integer_is_read_up_to_what_follows),
      cmocka_unit_test(a_double_is_read_up_to_what_follows),
      cmocka_unit_test(what_does_not_begin_with_a_number_is_none),
      cmocka_unit_test(bytes_may_have_a_unit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
