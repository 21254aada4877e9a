// SPDX-License-Identifier: Apache-2.0
// Text to numbers. Floats by the algorithm of Eisel and Lemire (Lemire, "Number parsing at a
// gigabyte per second", Software: Practice and Experience 51(8), 2021): a 19-digit integer times a
// power of ten. Numbers with more digits that are too close to call go to the C library.
#include "base/number.h"

#include "base/number_mask.h"
#include "base/number_powers.h"

#include <float.h>
#include <locale.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DIGITS 19 // that always fit a uint64

// A number as it stands in the text.
typedef struct literal {
  const char *begin, *end;
  uint64_t digits;  // the first MAX_DIGITS significant ones
  int64_t exponent; // of 10, for `digits`
  bool negative;
  bool truncated; // digits other than zeroes are missing
} literal;

static bool is_digit(char c)
{
  return c >= '0' && c <= '9';
}

// ---- eight digits at a time ----

// The number of digits at the word's begin. A digit's byte is 0 to 9 once '0' is subtracted: adding
// 6 leaves its upper half empty. Only a byte that is no digit carries.
static inline size_t digit_run(uint64_t word)
{
  uint64_t values = word ^ 0x3030303030303030;
  uint64_t others = (values | (values + 0x0606060606060606)) & 0xf0f0f0f0f0f0f0f0;
  return others == 0 ? 8 : (size_t)__builtin_ctzll(others) / 8;
}

// The value of eight digits, '0' subtracted from each.
static inline uint32_t value_of_eight(uint64_t w)
{
  w = w * 10 + (w >> 8); // pairs in the even bytes
  const uint64_t mask = 0x000000ff000000ff;
  return (uint32_t)(((w & mask) * 0x000f424000000064 + ((w >> 16) & mask) * 0x0000271000000001) >>
                    32);
}

// Takes the last digits one by one when MAX_DIGITS is near; counts those that do not fit.
static const char *take_last_digits(const char *text, literal *l, int *kept, int64_t *dropped)
{
  for (; is_digit(*text); text++) {
    unsigned digit = (unsigned)(*text - '0');
    if (*kept < MAX_DIGITS) {
      l->digits = l->digits * 10 + digit;
      ++*kept;
    } else {
      l->truncated |= digit != 0;
      ++*dropped;
    }
  }
  return text;
}

// Takes the digits at `text`, a word at a time.
static inline const char *take_digits(const char *text, literal *l, int *kept, int64_t *dropped)
{
  static const uint32_t powers[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
  while (*kept == 0 && *text == '0')
    text++; // leading zeroes are no digits
  while (*kept + 8 <= MAX_DIGITS) {
    uint64_t word = number_load_eight(text);
    size_t run = digit_run(word);
    if (run == 0)
      return text;
    if (run < 8) // zeroes before the digits
      word = word << (64 - 8 * run) | 0x3030303030303030 >> (8 * run);
    l->digits = l->digits * powers[run] + value_of_eight(word - 0x3030303030303030);
    *kept += (int)run;
    text += run;
    if (run < 8)
      return text;
  }
  return take_last_digits(text, l, kept, dropped);
}

// Reads [eE][+-]digits; the exponent saturates.
static bool take_exponent(const char **text, int64_t *exponent)
{
  const char *t = *text + 1;
  bool negative = *t == '-';
  int64_t value = 0;
  t += *t == '-' || *t == '+';
  if (!is_digit(*t)) {
    *text = t;
    return false;
  }
  for (; is_digit(*t); t++)
    if (value < 1000000)
      value = value * 10 + (*t - '0');
  *text = t;
  *exponent += negative ? -value : value;
  return true;
}

// A number of the usual form, see scan_usual.
typedef struct usual {
  const char *end;
  uint64_t digits;
  int exponent; // of 10, for `digits`
  bool negative;
} usual;

// Reads the usual form, -?digits[.digits] of up to 15 characters. The code does not branch on sign,
// point and digit count, as branches on random data are mispredicted. False for other forms, which
// may be numbers too.
static inline bool scan_usual(const char *text, usual *u)
{
  uint32_t others = number_mask_others(text) | 3u << 16;
  u->negative = others & 1;
  others &= ~1u;
  unsigned point = (unsigned)__builtin_ctz(others);
  unsigned end = (unsigned)__builtin_ctz(others & (others - 1));
  const char *first = text + u->negative;
  bool has_point = text[point] == '.';
  if (!has_point)
    end = point;
  unsigned whole_digits = point - u->negative;
  unsigned other_characters = u->negative + has_point;
  if ((u->negative && *text != '-') | (whole_digits == 0) | (end >= 16) |
      (end == point + has_point && has_point) | ((*first == '0') & (whole_digits > 1)) |
      ((text[end] | 0x20) == 'e'))
    return false;
  unsigned __int128 digits = number_load_eight(first + 8) ^ 0x3030303030303030;
  digits = digits << 64 | (number_load_eight(first) ^ 0x3030303030303030);
  unsigned __int128 whole = ((unsigned __int128)1 << 8 * whole_digits) - 1;
  digits = (digits & whole) | ((has_point ? digits >> 8 : digits) & ~whole);
  digits <<= 8 * (16 - (end - other_characters)); // zeroes before the digits; later bytes fall out
  u->digits =
      value_of_eight((uint64_t)digits) * 100000000ull + value_of_eight((uint64_t)(digits >> 64));
  u->exponent = (int)point - (int)end + has_point;
  u->end = text + end;
  return true;
}

// Reads JSON's number. False when there is none; l->end is then the place of the mistake.
static inline bool scan(const char *text, literal *l)
{
  usual u;
  if (scan_usual(text, &u)) {
    *l = (literal){text, u.end, u.digits, u.exponent, u.negative, false};
    return true;
  }
  *l = (literal){.begin = text};
  l->negative = *text == '-';
  text += l->negative;
  int kept = 0;
  int64_t dropped = 0;
  l->end = text;
  if (!is_digit(*text) || (*text == '0' && is_digit(text[1])))
    return false;
  text = take_digits(text, l, &kept, &dropped);
  l->exponent = dropped;
  if (*text == '.') {
    const char *fraction = text + 1;
    dropped = 0;
    text = take_digits(fraction, l, &kept, &dropped);
    l->exponent -= text - fraction - dropped;
    l->end = text;
    if (text == fraction)
      return false;
  }
  if ((*text == 'e' || *text == 'E') && !take_exponent(&text, &l->exponent)) {
    l->end = text;
    return false;
  }
  l->end = text;
  return true;
}

// ---- integers ----

// Brings the exponent to 0 when the number is whole and fits.
static number_status to_integer(literal *l)
{
  while (l->exponent < 0 && l->digits % 10 == 0 && l->digits != 0) {
    l->digits /= 10;
    l->exponent++;
  }
  if (l->digits == 0)
    return NUMBER_READ_OK;
  if (l->exponent < 0)
    return NUMBER_READ_NOT_INTEGER;
  for (; l->exponent > 0; l->exponent--)
    if (__builtin_mul_overflow(l->digits, (uint64_t)10, &l->digits))
      return NUMBER_READ_OUT_OF_RANGE;
  return NUMBER_READ_OK;
}

static bool append_digit(uint64_t *value, unsigned digit)
{
  return !__builtin_mul_overflow(*value, (uint64_t)10, value) &&
         !__builtin_add_overflow(*value, (uint64_t)digit, value);
}

// The magnitude of a number that has more digits than `scan` keeps: a uint64 may have 20.
static number_status read_long(literal *l)
{
  int64_t whole = MAX_DIGITS + l->exponent; // digits before the point
  l->digits = 0;
  for (const char *t = l->begin; t < l->end && *t != 'e' && *t != 'E'; t++) {
    if (!is_digit(*t) || (l->digits == 0 && *t == '0'))
      continue;
    if (whole <= 0 && *t != '0')
      return NUMBER_READ_NOT_INTEGER;
    if (whole > 0 && !append_digit(&l->digits, (unsigned)(*t - '0')))
      return NUMBER_READ_OUT_OF_RANGE;
    whole--;
  }
  for (; whole > 0; whole--)
    if (!append_digit(&l->digits, 0))
      return NUMBER_READ_OUT_OF_RANGE;
  return NUMBER_READ_OK;
}

static number_status read_magnitude(const char *text, const char **end, literal *l)
{
  bool is_number = scan(text, l);
  *end = l->end;
  if (!is_number)
    return NUMBER_READ_NOT_A_NUMBER;
  return l->truncated ? read_long(l) : to_integer(l);
}

number_status number_read_i64(const char *text, const char **end, int64_t *value)
{
  literal l;
  number_status status = read_magnitude(text, end, &l);
  if (status != NUMBER_READ_OK)
    return status;
  if (l.digits > (uint64_t)INT64_MAX + l.negative)
    return NUMBER_READ_OUT_OF_RANGE;
  *value = (int64_t)(l.negative ? 0 - l.digits : l.digits);
  return NUMBER_READ_OK;
}

number_status number_read_u64(const char *text, const char **end, uint64_t *value)
{
  literal l;
  number_status status = read_magnitude(text, end, &l);
  if (status != NUMBER_READ_OK)
    return status;
  if (l.negative && l.digits != 0)
    return NUMBER_READ_OUT_OF_RANGE;
  *value = l.digits;
  return NUMBER_READ_OK;
}

// ---- floats ----

// The differences between binary64 and binary32.
typedef struct binary_format {
  int fraction_bits;
  int min_exponent;                   // unbiased exponent of biased 0
  int infinity;                       // biased
  int smallest_power, largest_power;  // of 10: beyond is zero or infinity
  int min_round_even, max_round_even; // powers for which an exact half is possible
} binary_format;

static const binary_format binary64 = {52, -1023, 0x7ff, -342, 308, -4, 23};
static const binary_format binary32 = {23, -127, 0xff, -65, 38, -17, 10};

// A result: fraction and biased exponent.
typedef struct binary {
  uint64_t fraction;
  int exponent;
} binary;

// The upper 128 bits of w * 10^q, as precise as `bits` of the result need.
static void multiply_power(uint64_t w, int q, int bits, uint64_t *high, uint64_t *low)
{
  const number_power *power = &number_powers[q - NUMBER_POWERS_FIRST];
  unsigned __int128 first = (unsigned __int128)w * power->high;
  *high = (uint64_t)(first >> 64);
  *low = (uint64_t)first;
  uint64_t undecided = UINT64_MAX >> bits;
  if ((*high & undecided) != undecided)
    return;
  uint64_t carry = (uint64_t)(((unsigned __int128)w * power->low) >> 64);
  *low += carry;
  *high += *low < carry;
}

static binary round_subnormal(uint64_t mantissa, int exponent, const binary_format *f)
{
  if (1 - exponent >= 64)
    return (binary){0, 0};
  mantissa >>= 1 - exponent;
  mantissa = (mantissa + (mantissa & 1)) >> 1;
  bool normal = mantissa >= 1ull << f->fraction_bits;
  return (binary){mantissa & ((1ull << f->fraction_bits) - 1), normal};
}

// w * 10^q, rounded to nearest even.
static inline binary convert(uint64_t w, int64_t power, const binary_format *f)
{
  if (w == 0 || power < f->smallest_power)
    return (binary){0, 0};
  if (power > f->largest_power)
    return (binary){0, f->infinity};
  int q = (int)power;
  int zeroes = __builtin_clzll(w);
  uint64_t high, low;
  multiply_power(w << zeroes, q, f->fraction_bits + 3, &high, &low);
  int upper = (int)(high >> 63);
  int shift = upper + 64 - f->fraction_bits - 3;
  uint64_t mantissa = high >> shift;
  int exponent = ((217706 * q) >> 16) + 63 + upper - zeroes - f->min_exponent;
  if (exponent <= 0)
    return round_subnormal(mantissa, exponent, f);
  if (low <= 1 && q >= f->min_round_even && q <= f->max_round_even && (mantissa & 3) == 1 &&
      mantissa << shift == high)
    mantissa &= ~1ull; // exactly half: to even
  mantissa = (mantissa + (mantissa & 1)) >> 1;
  if (mantissa >= 2ull << f->fraction_bits) {
    mantissa = 1ull << f->fraction_bits;
    exponent++;
  }
  if (exponent >= f->infinity)
    return (binary){0, f->infinity};
  return (binary){mantissa & ((1ull << f->fraction_bits) - 1), exponent};
}

static locale_t c_locale;

static void make_c_locale(void)
{
  c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static bool has_c_locale(void)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_c_locale);
  return c_locale != (locale_t)0;
}

double number_strtod(const char *text, char **end)
{
  return has_c_locale() ? strtod_l(text, end, c_locale) : strtod(text, end);
}

static float number_strtof(const char *text)
{
  return has_c_locale() ? strtof_l(text, NULL, c_locale) : strtof(text, NULL);
}

// False when the missing digits decide.
static inline bool to_binary(const literal *l, const binary_format *f, binary *result)
{
  *result = convert(l->digits, l->exponent, f);
  if (!l->truncated)
    return true;
  binary next = convert(l->digits + 1, l->exponent, f);
  return next.fraction == result->fraction && next.exponent == result->exponent;
}

// NaN, Infinity, Inf, with a '-' before the latter two. 0: none; else the size.
static size_t read_word(const char *text, double *value)
{
  static const struct {
    const char *text;
    double value;
  } words[] = {
      {"NaN", (double)__builtin_nanf("")}, {"Infinity", __builtin_inf()}, {"Inf", __builtin_inf()},
      {"-Infinity", -__builtin_inf()},     {"-Inf", -__builtin_inf()},
  };
  for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
    size_t size = strlen(words[i].text);
    if (strncmp(text, words[i].text, size) == 0) {
      *value = words[i].value;
      return size;
    }
  }
  return 0;
}

// Scans a literal; `word` tells that *value is set already.
static number_status begin_float(const char *text, const char **end, literal *l, double *value,
                                 bool *word)
{
  *word = false;
  if (scan(text, l)) {
    *end = l->end;
    return NUMBER_READ_OK;
  }
  *end = l->end;
  size_t size = read_word(text, value);
  if (size == 0)
    return NUMBER_READ_NOT_A_NUMBER;
  *word = true;
  *end = text + size;
  return NUMBER_READ_OK;
}

static inline number_status finish_f64(const literal *l, double *value)
{
  binary b;
  if (to_binary(l, &binary64, &b)) {
    uint64_t bits = (uint64_t)l->negative << 63 | (uint64_t)b.exponent << 52 | b.fraction;
    memcpy(value, &bits, sizeof(bits));
    return b.exponent < binary64.infinity ? NUMBER_READ_OK : NUMBER_READ_OUT_OF_RANGE;
  }
  *value = number_strtod(l->begin, NULL); // the slow way
  return *value >= -DBL_MAX && *value <= DBL_MAX ? NUMBER_READ_OK : NUMBER_READ_OUT_OF_RANGE;
}

static inline number_status finish_f32(const literal *l, float *value)
{
  binary b;
  if (to_binary(l, &binary32, &b)) {
    uint32_t bits = (uint32_t)l->negative << 31 | (uint32_t)b.exponent << 23 | (uint32_t)b.fraction;
    memcpy(value, &bits, sizeof(bits));
    return b.exponent < binary32.infinity ? NUMBER_READ_OK : NUMBER_READ_OUT_OF_RANGE;
  }
  *value = number_strtof(l->begin);
  return *value >= -FLT_MAX && *value <= FLT_MAX ? NUMBER_READ_OK : NUMBER_READ_OUT_OF_RANGE;
}

number_status number_read_f64(const char *text, const char **end, double *value)
{
  literal l;
  bool word;
  number_status status = begin_float(text, end, &l, value, &word);
  return status != NUMBER_READ_OK || word ? status : finish_f64(&l, value);
}

number_status number_read_f32(const char *text, const char **end, float *value)
{
  literal l;
  bool word;
  double special;
  number_status status = begin_float(text, end, &l, &special, &word);
  if (status != NUMBER_READ_OK)
    return status;
  if (!word)
    return finish_f32(&l, value);
  *value = (float)special;
  return NUMBER_READ_OK;
}

// ---- many floats ----

// One loop for each type. A number cannot be read before the end of the previous one is known. So
// that place stays in a register, and the separator is assumed to have as many characters (1 or 2)
// as the last one.
#define READ_RUN(name, type, bits_type, format, sign_shift, fraction_bits)                         \
  size_t name(const char *text, const char *limit, void *out, size_t max_count, const char **end)  \
  {                                                                                                \
    size_t count = 0;                                                                              \
    size_t separator = 0;                                                                          \
    usual u;                                                                                       \
    for (*end = text; count < max_count && scan_usual(text, &u) && u.end <= limit;) {              \
      binary b = convert(u.digits, u.exponent, &format);                                           \
      bits_type bits = (bits_type)u.negative << sign_shift |                                       \
                       (bits_type)b.exponent << fraction_bits | (bits_type)b.fraction;             \
      if (b.exponent >= format.infinity)                                                           \
        break;                                                                                     \
      memcpy((type *)out + count, &bits, sizeof(bits));                                            \
      count++;                                                                                     \
      *end = u.end;                                                                                \
      if (*u.end != ',')                                                                           \
        break;                                                                                     \
      if (separator == 0)                                                                          \
        separator = u.end[1] == ' ' ? 2 : 1;                                                       \
      if (separator == 2 && u.end[1] != ' ')                                                       \
        break;                                                                                     \
      text = u.end + separator;                                                                    \
    }                                                                                              \
    return count;                                                                                  \
  }

READ_RUN(number_read_f32_run, float, uint32_t, binary32, 31, 23)
READ_RUN(number_read_f64_run, double, uint64_t, binary64, 63, 52)
