// SPDX-License-Identifier: Apache-2.0
// Numbers to text. Floats are printed by the Schubfach algorithm (Raffaello Giulietti, "The
// Schubfach way to render doubles", 2022), with the powers of ten of number_powers.h.
#include "base/number.h"

#define NUMBER_POWERS_DEFINE
#include "base/number_powers.h"

#include <string.h>

// ---- integers ----

static size_t count_digits(uint64_t value)
{
  static const uint64_t limits[] = {0,
                                    10,
                                    100,
                                    1000,
                                    10000,
                                    100000,
                                    1000000,
                                    10000000,
                                    100000000,
                                    1000000000,
                                    10000000000,
                                    100000000000,
                                    1000000000000,
                                    10000000000000,
                                    100000000000000,
                                    1000000000000000,
                                    10000000000000000,
                                    100000000000000000,
                                    1000000000000000000,
                                    10000000000000000000u};
  size_t guess = (size_t)((64 - __builtin_clzll(value | 1)) * 1233) >> 12; // log10(2) is 1233/4096
  return guess + (value >= limits[guess] || guess == 0);
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "digits are put together in words");

// The eight digits of a number below 10^8 as text, the first in the lowest byte: halves, then
// quarters, then digits are divided side by side in one word (Paul Khuong, "How to print integers
// really fast", 2017).
static inline uint64_t eight_digits(uint32_t value)
{
  uint64_t halves = value / 10000 | (uint64_t)(value % 10000) << 32;
  uint64_t hundreds = ((halves * 10486) >> 20) & 0x0000007f0000007f;
  uint64_t quarters = hundreds | (halves - 100 * hundreds) << 16;
  uint64_t tens = ((quarters * 103) >> 10) & 0x000f000f000f000f;
  return (tens | (quarters - 10 * tens) << 8) + 0x3030303030303030;
}

// Writes `count` digits, 1 to 20, with zeroes before the number. Up to 7 bytes behind them are
// written too, which is within NUMBER_TEXT_BYTES.
static inline void put_digits(char *out, uint64_t value, size_t count)
{
  uint32_t lower[2];
  size_t groups = 0;
  for (; count > 8; count -= 8) {
    lower[groups++] = (uint32_t)(value % 100000000);
    value /= 100000000;
  }
  uint64_t text = eight_digits((uint32_t)value) >> (8 * (8 - count));
  memcpy(out, &text, 8);
  for (out += count; groups > 0; out += 8) {
    text = eight_digits(lower[--groups]);
    memcpy(out, &text, 8);
  }
}

size_t number_print_u64(char *out, uint64_t value)
{
  size_t count = count_digits(value);
  put_digits(out, value, count);
  return count;
}

size_t number_print_i64(char *out, int64_t value)
{
  if (value >= 0)
    return number_print_u64(out, (uint64_t)value);
  out[0] = '-';
  return 1 + number_print_u64(out + 1, 0 - (uint64_t)value);
}

// ---- decimal floats ----

// digits * 10^exponent
typedef struct decimal {
  uint64_t digits;
  int exponent;
} decimal;

// The floor of log10(2^e), of log10(3/4 * 2^e) and of log2(10^e), for |e| below 1650.
static int floor_log10_pow2(int e)
{
  return (e * 1262611) >> 22;
}

static int floor_log10_three_quarters_pow2(int e)
{
  return (e * 1262611 - 524031) >> 22;
}

static int floor_log2_pow10(int e)
{
  return (e * 1741647) >> 19;
}

// A value c * 2^q and the bounds of the decimals that read back to it, all times 4 and scaled to
// 10^k, rounded to odd (section 9 of the paper).
typedef struct scaled {
  uint64_t lower, value, upper;
  int k;
} scaled;

// Picks the shortest decimal between the bounds, the closest of several.
static inline decimal pick(scaled v, bool bounds_included)
{
  uint64_t lower = v.lower + !bounds_included;
  uint64_t upper = v.upper - !bounds_included;
  uint64_t s = v.value / 4;
  uint64_t tens = s / 10;
  bool tens_below = lower <= 40 * tens;
  bool tens_above = 40 * tens + 40 <= upper;
  bool shorter = (s >= 10) & (tens_below != tens_above);
  bool below = lower <= 4 * s;
  bool above = 4 * s + 4 <= upper;
  uint64_t middle = 4 * s + 2;
  bool nearer_above = (v.value > middle) | ((v.value == middle) & (s & 1));
  uint64_t same = s + (below != above ? above : nearer_above);
  return (decimal){shorter ? tens + tens_above : same, v.k + shorter};
}

static uint64_t scale_f32(uint64_t power, uint32_t c)
{
  unsigned __int128 product = (unsigned __int128)power * c;
  return (uint64_t)(product >> 64) | ((uint32_t)((uint64_t)product >> 32) > 1);
}

static inline decimal shortest_f32(uint32_t fraction, int biased)
{
  uint32_t c = biased != 0 ? fraction | 1u << 23 : fraction;
  int q = (biased != 0 ? biased : 1) - 150;
  bool closer_below = fraction == 0 && biased > 1;
  int k = closer_below ? floor_log10_three_quarters_pow2(q) : floor_log10_pow2(q);
  int h = q + floor_log2_pow10(-k) + 1;
  const number_power *row = &number_powers[-k - NUMBER_POWERS_FIRST];
  uint64_t power = row->high + (row->low != 0); // rounded up
  scaled v = {
      .lower = scale_f32(power, (4 * c - 2 + closer_below) << h),
      .value = scale_f32(power, 4 * c << h),
      .upper = scale_f32(power, (4 * c + 2) << h),
      .k = k,
  };
  return pick(v, (c & 1) == 0);
}

static uint64_t scale_f64(number_power power, uint64_t c)
{
  unsigned __int128 low = (unsigned __int128)power.low * c;
  unsigned __int128 sum = (unsigned __int128)power.high * c + (uint64_t)(low >> 64);
  return (uint64_t)(sum >> 64) | ((uint64_t)sum > 1);
}

static decimal shortest_f64(uint64_t fraction, int biased)
{
  uint64_t c = biased != 0 ? fraction | 1ull << 52 : fraction;
  int q = (biased != 0 ? biased : 1) - 1075;
  bool closer_below = fraction == 0 && biased > 1;
  int k = closer_below ? floor_log10_three_quarters_pow2(q) : floor_log10_pow2(q);
  int h = q + floor_log2_pow10(-k) + 1;
  number_power power = number_powers[-k - NUMBER_POWERS_FIRST];
  if (-k > 55 && ++power.low == 0) // 5^55 is the last power that fits 128 bits
    power.high++;
  scaled v = {
      .lower = scale_f64(power, (4 * c - 2 + closer_below) << h),
      .value = scale_f64(power, 4 * c << h),
      .upper = scale_f64(power, (4 * c + 2) << h),
      .k = k,
  };
  return pick(v, (c & 1) == 0);
}

// ---- layout ----

// d.ddde±x
static size_t put_scientific(char *out, uint64_t digits, size_t count, int point)
{
  char *start = out;
  put_digits(out + 1, digits, count);
  out[0] = out[1];
  if (count > 1) {
    out[1] = '.';
    out += count + 1;
  } else {
    out += 1;
  }
  *out++ = 'e';
  out += number_print_i64(out, point - 1);
  return (size_t)(out - start);
}

// d has 1 to 17 digits; `point` of them stand before the decimal point.
static inline size_t put_decimal(char *out, decimal d)
{
  while (d.digits % 10 == 0) {
    d.digits /= 10;
    d.exponent++;
  }
  size_t count = count_digits(d.digits);
  int point = (int)count + d.exponent;
  if (point < -5 || point > 17)
    return put_scientific(out, d.digits, count, point);
  if (point <= 0) { // 0.000ddd
    memcpy(out, "0.000000", 8);
    put_digits(out + 2 - point, d.digits, count);
    return 2 + (size_t)-point + count;
  }
  size_t whole = (size_t)point;
  if (whole >= count) { // ddd000.0
    put_digits(out, d.digits, count);
    memset(out + count, '0', whole - count);
    memcpy(out + whole, ".0", 2);
    return whole + 2;
  }
  put_digits(out + 1, d.digits, count); // ddd.ddd
  for (size_t i = 0; i < whole; i++)
    out[i] = out[i + 1];
  out[whole] = '.';
  return count + 1;
}

// Prints NaN, infinities and zero; 0 for an ordinary number.
static size_t put_special(char *out, bool negative, bool largest_exponent, bool zero_fraction,
                          bool zero)
{
  if (largest_exponent && !zero_fraction) {
    memcpy(out, "NaN", 3);
    return 3;
  }
  const char *text = largest_exponent ? "-Infinity" : "-0.0";
  if (!largest_exponent && !zero)
    return 0;
  size_t size = strlen(text);
  memcpy(out, text + !negative, size - !negative);
  return size - !negative;
}

size_t number_print_f32(char *out, float value)
{
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  uint32_t fraction = bits & 0x7fffff;
  int biased = (int)(bits >> 23 & 0xff);
  bool negative = bits >> 31 != 0;
  size_t special = put_special(out, negative, biased == 0xff, fraction == 0, bits << 1 == 0);
  if (special != 0)
    return special;
  out[0] = '-';
  return negative + put_decimal(out + negative, shortest_f32(fraction, biased));
}

size_t number_print_f64(char *out, double value)
{
  uint64_t bits;
  memcpy(&bits, &value, sizeof(bits));
  uint64_t fraction = bits & 0xfffffffffffffull;
  int biased = (int)(bits >> 52 & 0x7ff);
  bool negative = bits >> 63 != 0;
  size_t special = put_special(out, negative, biased == 0x7ff, fraction == 0, bits << 1 == 0);
  if (special != 0)
    return special;
  out[0] = '-';
  return negative + put_decimal(out + negative, shortest_f64(fraction, biased));
}
