// SPDX-License-Identifier: Apache-2.0
// Numbers as text against the C library, which is slow and right.
#include "base/number.h"
#include "base/number_mask.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// A text with the readable bytes behind it that readers ask for.
static const char *padded(const char *text)
{
  static char room[2048];
  memset(room, 0, sizeof(room));
  snprintf(room, sizeof(room) - NUMBER_BYTES_BEHIND, "%s", text);
  return room;
}

static float f32_of(uint32_t bits)
{
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

static uint32_t bits_of_f32(float value)
{
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

static uint64_t random_bits(uint64_t *state)
{
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

static size_t significant_digits(const char *text)
{
  const char *first = NULL, *last = NULL;
  size_t count = 0;
  for (const char *c = text; *c != '\0' && *c != 'e'; c++) {
    if (*c >= '1' && *c <= '9') {
      first = first == NULL ? c : first;
      last = c;
    }
  }
  for (const char *c = first; c != NULL && c <= last; c++)
    count += *c != '.';
  return count;
}

static void check_f32(uint32_t bits, bool shortest_too)
{
  char text[NUMBER_TEXT_BYTES + NUMBER_BYTES_BEHIND + 1] = {0};
  const char *end;
  float value = f32_of(bits), read;
  size_t size = number_print_f32(text, value);
  assert_in_range(size, 3, NUMBER_TEXT_BYTES);
  memset(text + size, 0, NUMBER_BYTES_BEHIND);
  if (strtof(text, NULL) != value)
    fail_msg("%08" PRIx32 " printed as %s", bits, text);
  assert_int_equal(number_read_f32(text, &end, &read), NUMBER_READ_OK);
  assert_ptr_equal(end, text + size);
  if (bits_of_f32(read) != bits)
    fail_msg("%s read as %08" PRIx32, text, bits_of_f32(read));
  if (!shortest_too)
    return;
  char shorter[64];
  int digits = (int)significant_digits(text);
  if (digits > 1) {
    snprintf(shorter, sizeof(shorter), "%.*e", digits - 2, (double)value);
    if (strtof(shorter, NULL) == value)
      fail_msg("%s is longer than %s", text, shorter);
  }
}

static void every_kind_of_binary32_reads_back_and_is_shortest(void **state)
{
  (void)state;
  for (uint64_t bits = 0; bits < 0x7f800000; bits += 9973)
    check_f32((uint32_t)bits, bits % 7 == 0);
  for (uint32_t exponent = 0; exponent < 255; exponent++)
    for (uint32_t fraction = 0; fraction < 3; fraction++) {
      check_f32(exponent << 23 | fraction, true);
      check_f32(0x80000000 | exponent << 23 | (0x7fffff - fraction), true);
    }
}

static void check_f64(uint64_t bits)
{
  char text[NUMBER_TEXT_BYTES + NUMBER_BYTES_BEHIND + 1] = {0};
  const char *end;
  double value, read;
  memcpy(&value, &bits, sizeof(value));
  size_t size = number_print_f64(text, value);
  assert_in_range(size, 3, NUMBER_TEXT_BYTES);
  memset(text + size, 0, NUMBER_BYTES_BEHIND);
  if (strtod(text, NULL) != value)
    fail_msg("%016" PRIx64 " printed as %s", bits, text);
  assert_int_equal(number_read_f64(text, &end, &read), NUMBER_READ_OK);
  if (memcmp(&read, &value, sizeof(read)) != 0)
    fail_msg("%s read as %a, expected %a", text, read, value);
  char shorter[64];
  int digits = (int)significant_digits(text);
  if (digits > 1) {
    snprintf(shorter, sizeof(shorter), "%.*e", digits - 2, value);
    if (strtod(shorter, NULL) == value)
      fail_msg("%s is longer than %s", text, shorter);
  }
}

static void every_kind_of_binary64_reads_back_and_is_shortest(void **state)
{
  (void)state;
  uint64_t seed = 88172645463325252;
  for (int i = 0; i < 200000; i++) {
    uint64_t bits = random_bits(&seed);
    if ((bits >> 52 & 0x7ff) != 0x7ff)
      check_f64(bits);
  }
  for (uint64_t exponent = 0; exponent < 2047; exponent++) {
    check_f64(exponent << 52);
    check_f64(exponent << 52 | 1);
    check_f64(exponent << 52 | 0xfffffffffffff);
  }
}

static void floats_are_laid_out_as_people_write_them(void **state)
{
  (void)state;
  static const struct {
    double value;
    const char *text;
  } rows[] = {
      {0.0, "0.0"},
      {-0.0, "-0.0"},
      {1.0, "1.0"},
      {-1.5, "-1.5"},
      {0.1, "0.1"},
      {100.0, "100.0"},
      {123456.75, "123456.75"},
      {0.00001, "0.00001"},
      {0.000001, "0.000001"},
      {0.0000001, "1e-7"},
      {1e16, "10000000000000000.0"},
      {1e17, "1e17"},
      {1.5e300, "1.5e300"},
      {5e-324, "5e-324"},
      {1.7976931348623157e308, "1.7976931348623157e308"},
      {INFINITY, "Infinity"},
      {-INFINITY, "-Infinity"},
      {NAN, "NaN"},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    char text[NUMBER_TEXT_BYTES + 1] = {0};
    text[number_print_f64(text, rows[i].value)] = '\0';
    assert_string_equal(text, rows[i].text);
  }
  char text[NUMBER_TEXT_BYTES + 1] = {0};
  text[number_print_f32(text, 0.1f)] = '\0';
  assert_string_equal(text, "0.1");
  text[number_print_f32(text, 3.4028235e38f)] = '\0';
  assert_string_equal(text, "3.4028235e38");
}

static void hard_texts_round_as_the_c_library_does(void **state)
{
  (void)state;
  static const char *const texts[] = {
      "9007199254740993",
      "9007199254740992.5",
      "9007199254740993.0000000000000000000000001",
      "1.00000005960464477539",
      "1.000000059604644775390625",
      "1.0000000596046447753906250000000000000000001",
      "16777217",
      "16777219",
      "2.2250738585072011e-308",
      "2.2250738585072014e-308",
      "4.9e-324",
      "2.4703282292062327e-324",
      "2.4703282292062328e-324",
      "1e-400",
      "0e999999999",
      "1.7976931348623157e308",
      "7.0064923216240853546186479164495e-46",
      "7.0064923216240853546186479164496e-46",
      "1.4e-45",
      "3.4028235677973366e38",
      "8.589973e9",
      "9.5367431640625e-7",
      ("0.00000000000000000000000000000000000001175494350822287507968736537222245677818665556772"
       "087521508751706278417259454727172851560500000000000000000000000000000"),
      "123456789012345678901234567890",
      "0.1e-1",
      "1E+2",
      "18014398509481985",
      "1e23",
      "8.5e22",
      "6929495644600919.5",
      "3.2378839133029012895883524125015321748630094057005e-319"};
  for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
    const char *end, *text = padded(texts[i]);
    double f64;
    float f32;
    number_read_f64(text, &end, &f64);
    if (f64 != strtod(text, NULL))
      fail_msg("%s as binary64 is %a", text, f64);
    assert_ptr_equal(end, text + strlen(text));
    number_read_f32(text, &end, &f32);
    if (f32 != strtof(text, NULL))
      fail_msg("%s as binary32 is %a", text, (double)f32);
  }
}

static void random_decimals_round_as_the_c_library_does(void **state)
{
  (void)state;
  uint64_t seed = 2463534242;
  for (int i = 0; i < 200000; i++) {
    char text[64] = {0};
    const char *end;
    double f64;
    float f32;
    int exponent = (int)(random_bits(&seed) % 90) - 45;
    snprintf(text, sizeof(text), "%" PRIu64 ".%" PRIu64 "e%d", random_bits(&seed) >> (i % 60),
             random_bits(&seed) >> (i % 50), exponent);
    number_read_f64(text, &end, &f64);
    number_read_f32(text, &end, &f32);
    if (f64 != strtod(text, NULL) || f32 != strtof(text, NULL))
      fail_msg("%s read as %a and %a", text, f64, (double)f32);
  }
}

static void integers_are_exact_or_refused(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    number_status i64, u64;
    int64_t value;
  } rows[] = {
      {"0", NUMBER_READ_OK, NUMBER_READ_OK, 0},
      {"-0", NUMBER_READ_OK, NUMBER_READ_OK, 0},
      {"-1", NUMBER_READ_OK, NUMBER_READ_OUT_OF_RANGE, -1},
      {"12345678901234567", NUMBER_READ_OK, NUMBER_READ_OK, 12345678901234567},
      {"9223372036854775807", NUMBER_READ_OK, NUMBER_READ_OK, INT64_MAX},
      {"-9223372036854775808", NUMBER_READ_OK, NUMBER_READ_OUT_OF_RANGE, INT64_MIN},
      {"9223372036854775808", NUMBER_READ_OUT_OF_RANGE, NUMBER_READ_OK, INT64_MIN},
      {"18446744073709551615", NUMBER_READ_OUT_OF_RANGE, NUMBER_READ_OK, -1},
      {"18446744073709551616", NUMBER_READ_OUT_OF_RANGE, NUMBER_READ_OUT_OF_RANGE, 0},
      {"10000000000000000000", NUMBER_READ_OUT_OF_RANGE, NUMBER_READ_OK,
       (int64_t)10000000000000000000u},
      {"1844674407370955161.5e1", NUMBER_READ_OUT_OF_RANGE, NUMBER_READ_OK, -1},
      {"1844674407370955161.6e1", NUMBER_READ_OUT_OF_RANGE, NUMBER_READ_OUT_OF_RANGE, 0},
      {"0.12345678901234567890e20", NUMBER_READ_OUT_OF_RANGE, NUMBER_READ_OK,
       (int64_t)12345678901234567890u},
      {"123456789012345678.901e1", NUMBER_READ_NOT_INTEGER, NUMBER_READ_NOT_INTEGER, 0},
      {"12345678901234567890123e-5", NUMBER_READ_NOT_INTEGER, NUMBER_READ_NOT_INTEGER, 0},
      {"0.12345678901234567890123", NUMBER_READ_NOT_INTEGER, NUMBER_READ_NOT_INTEGER, 0},
      {"99999999999999999999999", NUMBER_READ_OUT_OF_RANGE, NUMBER_READ_OUT_OF_RANGE, 0},
      {"1e99999999999999999999", NUMBER_READ_OUT_OF_RANGE, NUMBER_READ_OUT_OF_RANGE, 0},
      {"1.0", NUMBER_READ_OK, NUMBER_READ_OK, 1},
      {"1e3", NUMBER_READ_OK, NUMBER_READ_OK, 1000},
      {"1.5e1", NUMBER_READ_OK, NUMBER_READ_OK, 15},
      {"1.5", NUMBER_READ_NOT_INTEGER, NUMBER_READ_NOT_INTEGER, 0},
      {"1e-1", NUMBER_READ_NOT_INTEGER, NUMBER_READ_NOT_INTEGER, 0},
      {"0.0000000000000000000000000", NUMBER_READ_OK, NUMBER_READ_OK, 0},
      {"", NUMBER_READ_NOT_A_NUMBER, NUMBER_READ_NOT_A_NUMBER, 0},
      {"-", NUMBER_READ_NOT_A_NUMBER, NUMBER_READ_NOT_A_NUMBER, 0},
      {"+1", NUMBER_READ_NOT_A_NUMBER, NUMBER_READ_NOT_A_NUMBER, 0},
      {"01", NUMBER_READ_NOT_A_NUMBER, NUMBER_READ_NOT_A_NUMBER, 0},
      {"1.", NUMBER_READ_NOT_A_NUMBER, NUMBER_READ_NOT_A_NUMBER, 0},
      {".5", NUMBER_READ_NOT_A_NUMBER, NUMBER_READ_NOT_A_NUMBER, 0},
      {"1e", NUMBER_READ_NOT_A_NUMBER, NUMBER_READ_NOT_A_NUMBER, 0},
      {"1e+", NUMBER_READ_NOT_A_NUMBER, NUMBER_READ_NOT_A_NUMBER, 0},
      {"NaN", NUMBER_READ_NOT_A_NUMBER, NUMBER_READ_NOT_A_NUMBER, 0},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    const char *end, *text = padded(rows[i].text);
    int64_t i64 = 0;
    uint64_t u64 = 0;
    if (number_read_i64(text, &end, &i64) != rows[i].i64 ||
        number_read_u64(text, &end, &u64) != rows[i].u64)
      fail_msg("%s", text);
    if (rows[i].i64 == NUMBER_READ_OK)
      assert_true(i64 == rows[i].value);
    if (rows[i].u64 == NUMBER_READ_OK)
      assert_true(u64 == (uint64_t)rows[i].value);
  }
  uint64_t power = 1;
  for (int i = 0; i < 20; i++, power *= 10) {
    char expected[32], text[NUMBER_TEXT_BYTES + 1];
    for (int offset = -1; offset < 2; offset++) {
      snprintf(expected, sizeof(expected), "%" PRIu64, power + offset);
      text[number_print_u64(text, power + offset)] = '\0';
      assert_string_equal(text, expected);
      snprintf(expected, sizeof(expected), "%" PRId64, -(int64_t)(power + offset));
      text[number_print_i64(text, -(int64_t)(power + offset))] = '\0';
      assert_string_equal(text, expected);
    }
  }
}

static void floats_beyond_the_largest_are_refused_and_words_are_read(void **state)
{
  (void)state;
  const char *end;
  double f64;
  float f32;
  assert_int_equal(number_read_f64(padded("1e309"), &end, &f64), NUMBER_READ_OUT_OF_RANGE);
  assert_int_equal(number_read_f32(padded("3.5e38"), &end, &f32), NUMBER_READ_OUT_OF_RANGE);
  assert_int_equal(number_read_f32(padded("-1e999"), &end, &f32), NUMBER_READ_OUT_OF_RANGE);
  assert_int_equal(number_read_f64(padded("NaN"), &end, &f64), NUMBER_READ_OK);
  assert_true(isnan(f64));
  assert_int_equal(number_read_f32(padded("-Infinity"), &end, &f32), NUMBER_READ_OK);
  assert_true(isinf(f32) && f32 < 0);
  assert_int_equal(number_read_f32(padded("Inf"), &end, &f32), NUMBER_READ_OK);
  assert_true(isinf(f32) && f32 > 0);
  assert_int_equal(number_read_f64(padded("nan"), &end, &f64), NUMBER_READ_NOT_A_NUMBER);
  assert_int_equal(number_read_f64(padded("--1"), &end, &f64), NUMBER_READ_NOT_A_NUMBER);
}

// Forms that a run may take or leave, whatever stands before and behind them.
static void a_run_reads_what_single_reads_do_or_stops(void **state)
{
  (void)state;
  static const char *const forms[] = {
      "0",       "-0",    "7",   "-12",          "0.5",      "-0.25",  "123456.789",
      "1e5",     "-2.5",  "00",  "0.1234567890", "1.",       ".5",     "12345678901234567890",
      "-1.5e-3", "-",     "+1",  "999999999999", "1E2",      "3.4e39", "0.0000000000001",
      "--1",     "1.2.3", "-.5", "01.5",         "8388609.", "-000",   "1234567.1234567",
  };
  const size_t count = sizeof(forms) / sizeof(forms[0]);
  static const char *const separators[] = {",", ", ", ",  ", " ,", "]", ",-", ""};
  for (size_t i = 0; i < count * count * 7; i++) {
    char text[128] = {0};
    const char *end, *single_end;
    float run[2] = {0}, single;
    snprintf(text, 96, "%s%s%s]", forms[i % count], separators[i / count % 7],
             forms[i / count / 7]);
    size_t taken = number_read_f32_run(text, text + strlen(text), run, 2, &end);
    const char *at = text;
    for (size_t k = 0; k < taken; k++) {
      assert_int_equal(number_read_f32(at, &single_end, &single), NUMBER_READ_OK);
      assert_int_equal(bits_of_f32(single), bits_of_f32(run[k]));
      at = single_end + 1 + (single_end[1] == ' ');
    }
    assert_ptr_equal(end, taken == 0 ? text : single_end);
  }
}

// What a machine tells with one comparison, words tell too.
static void digits_among_sixteen_bytes_are_told_from_others(void **state)
{
  (void)state;
  uint32_t chance = 1;
  for (unsigned i = 0; i < 200000; i++) {
    char text[16];
    uint32_t others = 0;
    for (unsigned k = 0; k < 16; k++) {
      chance = chance * 1664525u + 1013904223u;
      // Each byte at each place among digits first, then bytes near digits, then any.
      unsigned near = i < 4096  ? '0' + k % 10
                      : (i & 1) ? '/' - 8 + (chance >> 16) % 32
                                : chance >> 24;
      text[k] = (char)(i < 4096 && k == i % 16 ? i / 16 : near);
      others |= (uint32_t)(text[k] < '0' || text[k] > '9') << k;
    }
    assert_int_equal(number_mask_others(text), others);
    assert_int_equal(number_words_others(text), others);
  }
}

static void a_run_ends_at_its_limits(void **state)
{
  (void)state;
  const char *text = padded("1.5,2.5,-3.5,4.5");
  const char *end;
  double out[4];
  assert_int_equal(number_read_f64_run(text, text + 16, out, 4, &end), 4);
  assert_ptr_equal(end, text + 16);
  assert_true(out[0] == 1.5 && out[1] == 2.5 && out[2] == -3.5 && out[3] == 4.5);
  assert_int_equal(number_read_f64_run(text, text + 16, out, 2, &end), 2);
  assert_ptr_equal(end, text + 7);
  assert_int_equal(number_read_f64_run(text, text + 11, out, 4, &end), 2);
  assert_int_equal(number_read_f64_run(text, text + 2, out, 4, &end), 0);
}

static void half_floats_convert_and_print_all(void **state)
{
  (void)state;
  for (uint32_t bits = 0; bits < 0x10000; bits++) {
    float f16 = number_f16_to_f32((uint16_t)bits);
    float bf16 = number_bf16_to_f32((uint16_t)bits);
    char text[NUMBER_TEXT_BYTES + NUMBER_BYTES_BEHIND + 1] = {0};
    const char *end;
    float read;
    if (!isnan(f16)) {
      assert_int_equal(number_f32_to_f16(f16), bits);
      memset(text + number_print_f16(text, (uint16_t)bits), 0, NUMBER_BYTES_BEHIND);
      assert_int_equal(number_read_f32(text, &end, &read), NUMBER_READ_OK);
      assert_int_equal(number_f32_to_f16(read), bits);
      assert_true(isinf(f16) || significant_digits(text) <= 5);
    } else {
      assert_true(isnan(number_f16_to_f32(number_f32_to_f16(f16))));
    }
    if (!isnan(bf16)) {
      assert_int_equal(number_f32_to_bf16(bf16), bits);
      memset(text + number_print_bf16(text, (uint16_t)bits), 0, NUMBER_BYTES_BEHIND);
      assert_int_equal(number_read_f32(text, &end, &read), NUMBER_READ_OK);
      assert_int_equal(number_f32_to_bf16(read), bits);
    } else {
      assert_true(isnan(number_bf16_to_f32(number_f32_to_bf16(bf16))));
    }
  }
  assert_int_equal(number_f32_to_f16(65519.996f), 0x7bff);
  assert_int_equal(number_f32_to_f16(65520.0f), 0x7c00);
  assert_int_equal(number_f32_to_f16(0x1p-25f), 0);
  assert_int_equal(number_f32_to_f16(0x1.000002p-25f), 1);
  assert_int_equal(number_f32_to_f16(1.00048828125f), 0x3c00); // half way: to even
  assert_int_equal(number_f32_to_bf16(3.4028235e38f), 0x7f80);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_kind_of_binary32_reads_back_and_is_shortest),
      cmocka_unit_test(every_kind_of_binary64_reads_back_and_is_shortest),
      cmocka_unit_test(floats_are_laid_out_as_people_write_them),
      cmocka_unit_test(hard_texts_round_as_the_c_library_does),
      cmocka_unit_test(random_decimals_round_as_the_c_library_does),
      cmocka_unit_test(integers_are_exact_or_refused),
      cmocka_unit_test(floats_beyond_the_largest_are_refused_and_words_are_read),
      cmocka_unit_test(a_run_reads_what_single_reads_do_or_stops),
      cmocka_unit_test(digits_among_sixteen_bytes_are_told_from_others),
      cmocka_unit_test(a_run_ends_at_its_limits),
      cmocka_unit_test(half_floats_convert_and_print_all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
