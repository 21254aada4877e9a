// SPDX-License-Identifier: Apache-2.0
// Text helpers without state.
#include "base/text.h"

#include "base/number.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool continuation(unsigned char c)
{
  return (c & 0xc0) == 0x80;
}

size_t text_utf8_length(const char *text, size_t size)
{
  const unsigned char *p = (const unsigned char *)text;
  if (p[0] < 0x80)
    return 1;
  if (p[0] >= 0xc2 && p[0] <= 0xdf)
    return size >= 2 && continuation(p[1]) ? 2 : 0;
  if (p[0] >= 0xe0 && p[0] <= 0xef) {
    if (size < 3 || !continuation(p[1]) || !continuation(p[2]))
      return 0;
    bool overlong = p[0] == 0xe0 && p[1] < 0xa0;
    bool surrogate = p[0] == 0xed && p[1] > 0x9f;
    return overlong || surrogate ? 0 : 3;
  }
  if (p[0] >= 0xf0 && p[0] <= 0xf4) {
    if (size < 4 || !continuation(p[1]) || !continuation(p[2]) || !continuation(p[3]))
      return 0;
    bool overlong = p[0] == 0xf0 && p[1] < 0x90;
    bool beyond = p[0] == 0xf4 && p[1] > 0x8f;
    return overlong || beyond ? 0 : 4;
  }
  return 0;
}

// U+2018 to U+201F.
bool text_begins_typographic_quote(const char *text, size_t size)
{
  const unsigned char *p = (const unsigned char *)text;
  return size >= 3 && p[0] == 0xE2 && p[1] == 0x80 && p[2] >= 0x98 && p[2] <= 0x9F;
}

bool text_to_uint64(slice text, uint64_t *value)
{
  uint64_t result = 0;
  if (text.size == 0)
    return false;
  for (size_t i = 0; i < text.size; i++) {
    if (text.data[i] < '0' || text.data[i] > '9')
      return false;
    if (__builtin_mul_overflow(result, 10u, &result) ||
        __builtin_add_overflow(result, (uint64_t)(text.data[i] - '0'), &result))
      return false;
  }
  *value = result;
  return true;
}

void text_put_hex(char *out, const uint8_t *bytes, size_t count)
{
  static const char digits[] = "0123456789abcdef";
  for (size_t i = 0; i < count; i++) {
    *out++ = digits[bytes[i] >> 4];
    *out++ = digits[bytes[i] & 15];
  }
}

bool text_to_int64(slice text, int64_t *value)
{
  bool negative = text.size > 0 && text.data[0] == '-';
  bool sign = negative || (text.size > 0 && text.data[0] == '+');
  uint64_t magnitude;
  if (!text_to_uint64((slice){text.data + sign, text.size - sign}, &magnitude))
    return false;
  if (magnitude > (uint64_t)INT64_MAX + negative)
    return false;
  *value = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
  return true;
}

bool text_to_bytes(slice text, uint64_t *bytes)
{
  static const char units[] = "KkMmGgTt";
  const char *unit =
      text.size > 1 ? memchr(units, text.data[text.size - 1], sizeof(units) - 1) : NULL;
  unsigned shift = unit != NULL ? 10 * (unsigned)((unit - units) / 2 + 1) : 0;
  text.size -= unit != NULL;
  if (!text_to_uint64(text, bytes) || *bytes > UINT64_MAX >> shift)
    return false;
  *bytes <<= shift;
  return true;
}

bool text_to_double(slice text, double *value)
{
  char copy[64];
  if (text.size == 0 || text.size >= sizeof(copy) || memchr(text.data, '\0', text.size) != NULL)
    return false;
  for (size_t i = 0; i < text.size; i++) {
    if (strchr("+-.0123456789eE", text.data[i]) == NULL)
      return false;
  }
  memcpy(copy, text.data, text.size);
  copy[text.size] = '\0';
  char *end;
  *value = number_strtod(copy, &end);
  return *end == '\0' && isfinite(*value);
}

// ---- numbers at the beginning of a text ----

static const char *behind_blanks(const char *text)
{
  return text + strspn(text, " \t\n\v\f\r");
}

static const char *behind_sign(const char *text)
{
  return text + (*text == '+' || *text == '-');
}

static const char *behind_digits(const char *text)
{
  return text + strspn(text, "0123456789");
}

// The text behind the exponent at `text`, or `text` when there is none.
static const char *behind_exponent(const char *text)
{
  if (*text != 'e' && *text != 'E')
    return text;
  const char *digits = behind_sign(text + 1);
  const char *end = behind_digits(digits);
  return end == digits ? text : end;
}

bool text_begins_int64(const char *text, int64_t *value, const char **rest)
{
  const char *start = behind_blanks(text);
  *rest = behind_digits(behind_sign(start));
  return text_to_int64((slice){start, (size_t)(*rest - start)}, value);
}

bool text_begins_double(const char *text, double *value, const char **rest)
{
  const char *start = behind_blanks(text);
  const char *end = behind_digits(behind_sign(start));
  if (*end == '.')
    end = behind_digits(end + 1);
  *rest = behind_exponent(end);
  return text_to_double((slice){start, (size_t)(*rest - start)}, value);
}

// ---- copies ----

char *text_copy(slice text)
{
  char *copy = malloc(text.size + 1);
  if (copy == NULL)
    return NULL;
  if (text.size > 0)
    memcpy(copy, text.data, text.size);
  copy[text.size] = '\0';
  return copy;
}

bool text_replace(char **target, const char *text)
{
  char *copy = strdup(text);
  if (copy == NULL)
    return false;
  free(*target);
  *target = copy;
  return true;
}

size_t text_put_utf8(char *out, uint32_t code)
{
  if (code < 0x80) {
    out[0] = (char)code;
    return 1;
  }
  size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  for (size_t i = length - 1; i > 0; i--, code >>= 6)
    out[i] = (char)(0x80 | (code & 0x3f));
  out[0] = (char)((0xf00u >> length) | code);
  return length;
}

int text_hex_digit(char c)
{
  if (c >= '0' && c <= '9')
    return c - '0';
  if (c >= 'a' && c <= 'f')
    return c - 'a' + 10;
  if (c >= 'A' && c <= 'F')
    return c - 'A' + 10;
  return -1;
}

bool text_same(const char *a, const char *b)
{
  return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

bool text_starts_with(const char *text, const char *prefix)
{
  return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool text_ends_with(const char *text, const char *suffix)
{
  size_t size = strlen(text), suffix_size = strlen(suffix);
  return size >= suffix_size && strcmp(text + size - suffix_size, suffix) == 0;
}
