// SPDX-License-Identifier: Apache-2.0
// Numbers as text, both ways. An input is text: what the readers make of it is compared with the C
// library and, for integers, with decimals worked out digit by digit. Its first bytes are bits too:
// what is printed of them must read back to the same.
#include "base/number.h"
#include "fuzz.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>

// ---- what JSON calls a number ----

static size_t digits_at(const char *text)
{
  return strspn(text, "0123456789");
}

// Size of the number at `text`, or 0.
static size_t json_number_size(const char *text)
{
  const char *t = text + (*text == '-');
  size_t whole = digits_at(t);
  if (whole == 0 || (t[0] == '0' && whole > 1))
    return 0;
  t += whole;
  if (*t == '.') {
    size_t fraction = digits_at(t + 1);
    if (fraction == 0)
      return 0;
    t += 1 + fraction;
  }
  if (*t == 'e' || *t == 'E') {
    size_t sign = t[1] == '-' || t[1] == '+';
    size_t exponent = digits_at(t + 1 + sign);
    if (exponent == 0)
      return 0;
    t += 1 + sign + exponent;
  }
  return (size_t)(t - text);
}

static size_t word_size(const char *text, double *value)
{
  const bool negative = text[0] == '-';
  *value = NAN;
  if (strncmp(text, "NaN", 3) == 0)
    return 3;
  if (strncmp(text + negative, "Inf", 3) != 0)
    return 0;
  *value = negative ? -INFINITY : INFINITY;
  return (strncmp(text + negative, "Infinity", 8) == 0 ? 8u : 3u) + negative;
}

// ---- floats ----

// The C library's view of the first `size` bytes; more of them might be a number in hexadecimal.
static void read_reference(const char *text, size_t size, double *f64, float *f32)
{
  char *copy = fuzz_copy((slice){text, size}, 0);
  *f64 = strtod(copy, NULL);
  *f32 = strtof(copy, NULL);
  free(copy);
}

static void check_f64(const char *text)
{
  double value = 0, word;
  const char *end;
  const number_status status = number_read_f64(text, &end, &value);
  const size_t size = json_number_size(text), special = word_size(text, &word);
  if (size == 0 && special == 0) {
    CHECK(status == NUMBER_READ_NOT_A_NUMBER);
    return;
  }
  CHECK(end == text + (size > 0 ? size : special));
  double expected;
  float unused;
  read_reference(text, size, &expected, &unused);
  expected = size > 0 ? expected : word;
  if (size > 0 && isinf(expected)) {
    CHECK(status == NUMBER_READ_OUT_OF_RANGE);
    return;
  }
  CHECK(status == NUMBER_READ_OK);
  CHECK(isnan(expected) ? isnan(value) : memcmp(&value, &expected, sizeof(value)) == 0);
}

static void check_f32(const char *text)
{
  float value = 0;
  double word;
  const char *end;
  const number_status status = number_read_f32(text, &end, &value);
  const size_t size = json_number_size(text), special = word_size(text, &word);
  if (size == 0 && special == 0) {
    CHECK(status == NUMBER_READ_NOT_A_NUMBER);
    return;
  }
  CHECK(end == text + (size > 0 ? size : special));
  double unused;
  float expected;
  read_reference(text, size, &unused, &expected);
  expected = size > 0 ? expected : (float)word;
  if (size > 0 && isinf(expected)) {
    CHECK(status == NUMBER_READ_OUT_OF_RANGE);
    return;
  }
  CHECK(status == NUMBER_READ_OK);
  CHECK(isnan(expected) ? isnan(value) : memcmp(&value, &expected, sizeof(value)) == 0);
}

// ---- integers ----

// The significant digits of a number of `size` bytes as one integer, and the power of ten that it
// is to be multiplied by.
static char *significant_digits(const char *text, size_t size, int64_t *power)
{
  char *digits = calloc(1, size + 1);
  CHECK(digits != NULL);
  size_t count = 0;
  bool fraction = false;
  *power = 0;
  for (size_t i = 0; i < size; i++) {
    if (text[i] == 'e' || text[i] == 'E') {
      *power += strtoll(text + i + 1, NULL, 10); // short: see check_integers
      break;
    }
    if (text[i] == '.')
      fraction = true;
    if (text[i] < '0' || text[i] > '9')
      continue;
    *power -= fraction;
    if (count > 0 || text[i] != '0')
      digits[count++] = text[i];
  }
  while (count > 0 && digits[count - 1] == '0') {
    digits[--count] = '\0';
    ++*power;
  }
  return digits;
}

// The magnitude of a whole number, if it fits.
static number_status reference_magnitude(const char *text, size_t size, uint64_t *magnitude)
{
  int64_t power;
  char *digits = significant_digits(text, size, &power);
  number_status status = NUMBER_READ_OK;
  *magnitude = 0;
  const int64_t whole = (int64_t)strlen(digits) + power; // digits before the point
  unsigned __int128 value = 0;
  for (int64_t i = 0; i < whole && value <= UINT64_MAX && digits[0] != '\0'; i++)
    value = value * 10 + (i < whole - power ? (unsigned)(digits[i] - '0') : 0);
  if (value > UINT64_MAX)
    status = NUMBER_READ_OUT_OF_RANGE;
  else if (digits[0] != '\0' && power < 0)
    status = NUMBER_READ_NOT_INTEGER;
  *magnitude = (uint64_t)value;
  free(digits);
  return status;
}

static void check_integers(const char *text)
{
  int64_t i64 = 0;
  uint64_t u64 = 0, magnitude;
  const char *end, *u64_end;
  const size_t size = json_number_size(text);
  const number_status i64_status = number_read_i64(text, &end, &i64);
  const number_status u64_status = number_read_u64(text, &u64_end, &u64);
  if (size == 0) {
    CHECK(i64_status == NUMBER_READ_NOT_A_NUMBER && u64_status == NUMBER_READ_NOT_A_NUMBER);
    return;
  }
  CHECK(end == text + size && u64_end == end);
  const size_t exponent = strcspn(text, "eE");
  if (exponent < size && size - exponent > 8)
    return; // readers may saturate
  const bool negative = text[0] == '-';
  const number_status status = reference_magnitude(text, size, &magnitude);
  const bool i64_fits = magnitude <= (uint64_t)INT64_MAX + negative;
  CHECK(i64_status == (status != NUMBER_READ_OK || i64_fits ? status : NUMBER_READ_OUT_OF_RANGE));
  CHECK(u64_status == (status != NUMBER_READ_OK || !negative || magnitude == 0
                           ? status
                           : NUMBER_READ_OUT_OF_RANGE));
  CHECK(i64_status != NUMBER_READ_OK || (uint64_t)i64 == (negative ? 0 - magnitude : magnitude));
  CHECK(u64_status != NUMBER_READ_OK || u64 == magnitude);
}

// ---- runs ----

// What a run takes, the reader of one number takes one by one.
static void check_runs(const char *text, size_t size)
{
  enum {
    MOST = 16
  };
  float f32[MOST], one_f32;
  double f64[MOST], one_f64;
  const char *end, *behind;
  size_t count = number_read_f64_run(text, text + size, f64, MOST, &end);
  const char *at = text;
  for (size_t i = 0; i < count; i++) {
    CHECK(number_read_f64(at, &behind, &one_f64) == NUMBER_READ_OK);
    CHECK(memcmp(&one_f64, &f64[i], sizeof(one_f64)) == 0);
    at = behind + 1 + (behind[0] == ',' && behind[1] == ' ');
  }
  CHECK(count == 0 ? end == text : end == behind);
  count = number_read_f32_run(text, text + size, f32, MOST, &end);
  at = text;
  for (size_t i = 0; i < count; i++) {
    CHECK(number_read_f32(at, &behind, &one_f32) == NUMBER_READ_OK);
    CHECK(memcmp(&one_f32, &f32[i], sizeof(one_f32)) == 0);
    at = behind + 1 + (behind[0] == ',' && behind[1] == ' ');
  }
  CHECK(count == 0 ? end == text : end == behind);
  CHECK(end <= text + size);
}

// ---- printing ----

static void check_printed_floats(uint64_t bits)
{
  char text[NUMBER_TEXT_BYTES + NUMBER_BYTES_BEHIND] = {0};
  const char *end;
  double f64, f64_again;
  memcpy(&f64, &bits, sizeof(f64));
  size_t size = number_print_f64(text, f64);
  CHECK(size < NUMBER_TEXT_BYTES);
  CHECK(number_read_f64(text, &end, &f64_again) == NUMBER_READ_OK && end == text + size);
  CHECK(isnan(f64) ? isnan(f64_again) : memcmp(&f64, &f64_again, sizeof(f64)) == 0);

  float f32, f32_again;
  const uint32_t f32_bits = (uint32_t)bits;
  memcpy(&f32, &f32_bits, sizeof(f32));
  memset(text, 0, sizeof(text));
  size = number_print_f32(text, f32);
  CHECK(size < NUMBER_TEXT_BYTES);
  CHECK(number_read_f32(text, &end, &f32_again) == NUMBER_READ_OK && end == text + size);
  CHECK(isnan(f32) ? isnan(f32_again) : memcmp(&f32, &f32_again, sizeof(f32)) == 0);
}

static void check_printed_integers(uint64_t bits)
{
  char text[NUMBER_TEXT_BYTES] = {0}, expected[NUMBER_TEXT_BYTES];
  size_t size = number_print_u64(text, bits);
  CHECK((size_t)snprintf(expected, sizeof(expected), "%" PRIu64, bits) == size);
  CHECK(memcmp(text, expected, size) == 0);
  size = number_print_i64(text, (int64_t)bits);
  CHECK((size_t)snprintf(expected, sizeof(expected), "%" PRId64, (int64_t)bits) == size);
  CHECK(memcmp(text, expected, size) == 0);
}

// ---- 16-bit floats ----

static double f16_value(uint16_t bits)
{
  const int exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
  const double magnitude = exponent == 31  ? (fraction == 0 ? INFINITY : NAN)
                           : exponent == 0 ? ldexp(fraction, -24)
                                           : ldexp(fraction + 1024, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

static void check_printed_16_bits(uint16_t bits)
{
  char text[NUMBER_TEXT_BYTES + NUMBER_BYTES_BEHIND] = {0};
  const char *end;
  float value;
  const float f16 = number_f16_to_f32(bits), bf16 = number_bf16_to_f32(bits);
  CHECK(isnan(f16) ? isnan(f16_value(bits)) : (double)f16 == f16_value(bits));
  size_t size = number_print_f16(text, bits);
  CHECK(number_read_f32(text, &end, &value) == NUMBER_READ_OK && end == text + size);
  CHECK(isnan(f16) ? isnan(value) : number_f32_to_f16(value) == bits);
  memset(text, 0, sizeof(text));
  size = number_print_bf16(text, bits);
  CHECK(number_read_f32(text, &end, &value) == NUMBER_READ_OK && end == text + size);
  CHECK(isnan(bf16) ? isnan(value) : number_f32_to_bf16(value) == bits);
}

// Neither neighbour may be nearer, and of two that are as near the even one counts.
static void check_nearest_f16(uint32_t f32_bits)
{
  float value;
  memcpy(&value, &f32_bits, sizeof(value));
  const uint16_t bits = number_f32_to_f16(value);
  if (isnan(value) || fabs((double)value) >= 65504) {
    CHECK(isnan(value) ? isnan(f16_value(bits)) : (bits & 0x7fff) >= 0x7bff);
    return;
  }
  const double error = fabs(f16_value(bits) - (double)value);
  for (int step = -1; step <= 1; step += 2) {
    if ((bits & 0x7fff) == 0 && step < 0)
      continue; // on the other side of zero
    const double other = fabs(f16_value((uint16_t)(bits + step)) - (double)value);
    CHECK(error < other || (error == other && (bits & 1) == 0));
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  char *text = fuzz_copy((slice){(const char *)data, size}, NUMBER_BYTES_BEHIND);
  check_f64(text);
  check_f32(text);
  check_integers(text);
  check_runs(text, size);
  free(text);
  uint64_t bits = 0;
  memcpy(&bits, data, size < sizeof(bits) ? size : sizeof(bits));
  check_printed_floats(bits);
  check_printed_integers(bits);
  check_printed_16_bits((uint16_t)bits);
  check_nearest_f16((uint32_t)bits);
  return 0;
}
