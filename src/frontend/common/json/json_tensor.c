// SPDX-License-Identifier: Apache-2.0
// Converts arrays of numbers and strings between text and a tensor's bytes.
#include "frontend/common/json/json_tensor.h"

#include "base/checked.h"
#include "base/number.h"
#include "frontend/common/json/number_array.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- one element of each type ----

// A finite number beyond FP32's range becomes an infinity, as in Triton.
static number_status read_f32(const char *text, const char **end, float *value)
{
  double wide;
  number_status status = number_read_f32(text, end, value);
  if (status == NUMBER_READ_OUT_OF_RANGE &&
      (status = number_read_f64(text, end, &wide)) == NUMBER_READ_OK)
    *value = (float)wide;
  return status;
}

// Rounds to odd: gives the float if it is exact, else its neighbour whose last bit is 1. Rounded to
// 16 bits, that gives the same as `value` itself; the nearest float would be rounded twice.
static float narrow_to_odd(double value)
{
  float narrow = (float)value;
  if ((double)narrow == value || value != value)
    return narrow;
  uint32_t bits;
  memcpy(&bits, &narrow, sizeof(bits));
  bits -= fabs((double)narrow) > fabs(value); // towards zero, also from an infinity
  bits |= 1;
  memcpy(&narrow, &bits, sizeof(bits));
  return narrow;
}

// A finite number that becomes an infinity is out of range.
static number_status read_half(const char *text, const char **end, uint16_t *bits,
                               uint16_t (*convert)(float), uint16_t infinity)
{
  double value = 0;
  number_status status = number_read_f64(text, end, &value);
  *bits = convert(narrow_to_odd(value));
  bool became_infinite = (*bits & 0x7fff) == infinity && isfinite(value);
  return status == NUMBER_READ_OK && became_infinite ? NUMBER_READ_OUT_OF_RANGE : status;
}

static number_status read_f16(const char *text, const char **end, uint16_t *bits)
{
  return read_half(text, end, bits, number_f32_to_f16, 0x7c00);
}

static number_status read_bf16(const char *text, const char **end, uint16_t *bits)
{
  return read_half(text, end, bits, number_f32_to_bf16, 0x7f80);
}

static number_status read_bool(const char *text, const char **end, bool *value)
{
  *value = strncmp(text, "true", 4) == 0;
  bool is_word = *value || strncmp(text, "false", 5) == 0;
  *end = is_word ? text + (*value ? 4 : 5) : text;
  return is_word ? NUMBER_READ_OK : NUMBER_READ_NOT_A_NUMBER;
}

static size_t print_bool(char *out, uint8_t value)
{
  memcpy(out, value ? "true" : "false", value != 0 ? 4 : 5);
  return value != 0 ? 4 : 5;
}

// Functions of one type: `reader` gives a `wide`, which must be in the type's range.
#define ELEMENT(suffix, type, wide, reader, run, printer, in_range)                                \
  static number_status read_##suffix##_element(const char *text, const char **end, void *out)      \
  {                                                                                                \
    wide value = 0;                                                                                \
    number_status status = reader(text, end, &value);                                              \
    if (status == NUMBER_READ_OK && !(in_range))                                                   \
      return NUMBER_READ_OUT_OF_RANGE;                                                             \
    type narrow = (type)value;                                                                     \
    memcpy(out, &narrow, sizeof(narrow));                                                          \
    return status;                                                                                 \
  }                                                                                                \
  static size_t print_##suffix##_element(char *out, const void *in)                                \
  {                                                                                                \
    type value;                                                                                    \
    memcpy(&value, in, sizeof(value));                                                             \
    return printer(out, value);                                                                    \
  }                                                                                                \
  static const number_form suffix = {read_##suffix##_element, run, print_##suffix##_element,       \
                                     sizeof(type)};
#define INTEGER(suffix, type, low, high)                                                           \
  ELEMENT(suffix, type, int64_t, number_read_i64, NULL, number_print_i64,                          \
          value >= (low) && value <= (high))
#define FLOAT(suffix, type, reader, run)                                                           \
  ELEMENT(suffix, type, type, reader, run, number_print_##suffix, true)

INTEGER(i8, int8_t, INT8_MIN, INT8_MAX)
INTEGER(i16, int16_t, INT16_MIN, INT16_MAX)
INTEGER(i32, int32_t, INT32_MIN, INT32_MAX)
INTEGER(i64, int64_t, INT64_MIN, INT64_MAX)
INTEGER(u8, uint8_t, 0, UINT8_MAX)
INTEGER(u16, uint16_t, 0, UINT16_MAX)
INTEGER(u32, uint32_t, 0, UINT32_MAX)
ELEMENT(u64, uint64_t, uint64_t, number_read_u64, NULL, number_print_u64, true)
ELEMENT(boolean, uint8_t, bool, read_bool, NULL, print_bool, true)
FLOAT(f16, uint16_t, read_f16, NULL)
FLOAT(bf16, uint16_t, read_bf16, NULL)
FLOAT(f32, float, read_f32, number_read_f32_run)
FLOAT(f64, double, number_read_f64, number_read_f64_run)

#define UNSIGNED "non-unsigned-integer as unsigned-integer"
#define SIGNED   "non-signed-integer as signed-integer"
#define NUMBER   "non-number as double"

static const struct {
  const number_form *form;
  const char *access; // words for a value of another kind
  const char *expected;
} types[] = {
    [TRITONSERVER_TYPE_BOOL] = {&boolean, "non-boolean as boolean", "true or false"},
    [TRITONSERVER_TYPE_UINT8] = {&u8, UNSIGNED, "an integer in [0, 255]"},
    [TRITONSERVER_TYPE_UINT16] = {&u16, UNSIGNED, "an integer in [0, 65535]"},
    [TRITONSERVER_TYPE_UINT32] = {&u32, UNSIGNED, "an integer in [0, 4294967295]"},
    [TRITONSERVER_TYPE_UINT64] = {&u64, UNSIGNED, "an integer in [0, 18446744073709551615]"},
    [TRITONSERVER_TYPE_INT8] = {&i8, SIGNED, "an integer in [-128, 127]"},
    [TRITONSERVER_TYPE_INT16] = {&i16, SIGNED, "an integer in [-32768, 32767]"},
    [TRITONSERVER_TYPE_INT32] = {&i32, SIGNED, "an integer in [-2147483648, 2147483647]"},
    [TRITONSERVER_TYPE_INT64] = {&i64, SIGNED,
                                 "an integer in [-9223372036854775808, 9223372036854775807]"},
    [TRITONSERVER_TYPE_FP16] = {&f16, NUMBER, "a number in the range of FP16"},
    [TRITONSERVER_TYPE_FP32] = {&f32, NUMBER, "a number in the range of FP32"},
    [TRITONSERVER_TYPE_FP64] = {&f64, NUMBER, "a number in the range of FP64"},
    [TRITONSERVER_TYPE_BF16] = {&bf16, NUMBER, "a number in the range of BF16"},
};

// ---- reading ----

// Walks the brackets and commas of nested arrays.
typedef struct nesting {
  size_t depth;
  uint64_t count; // elements so far
  uint64_t limit;
  bool counted_later; // by the core, which has Triton's words for strings; so one too many is read
} nesting;

#define WRONG_SHAPE "Unable to parse 'data': Shape does not match true shape of 'data' field"

static error *wrong_count(const json_path *path, const nesting *n, const char *got)
{
  return json_fail_words(path, WRONG_SHAPE, "expected %" PRIu64 " elements, got %s%" PRIu64,
                         n->limit, got, n->count);
}

// Takes brackets and commas up to the next element: ']' and ',' if the cursor is `behind_one`, then
// '['. *done: the outermost array has ended.
static error *seek_element(json_cursor *c, const json_path *path, nesting *n, bool behind_one,
                           bool *done)
{
  for (;; behind_one = true) { // again behind each empty array
    while (behind_one && json_peek(c) == ']') {
      c->at++;
      if (--n->depth > 0)
        continue;
      *done = true;
      return n->count == n->limit || n->counted_later ? NULL : wrong_count(path, n, "");
    }
    if (behind_one && json_peek(c) != ',')
      return json_fail_syntax(c, path, "',' or ']'");
    c->at += behind_one;
    bool opened = false;
    for (; json_peek(c) == '['; opened = true, c->at++)
      if (n->depth++ == JSON_MAX_DEPTH)
        return json_fail_text(path, "JSON nesting depth exceeds maximum allowed limit (%d)",
                              JSON_MAX_DEPTH);
    if (!opened && json_peek(c) == ']')
      return json_fail_syntax(c, path, "an element");
    if (!opened || json_peek(c) != ']')
      break;
  }
  if (n->count < n->limit + n->counted_later)
    return NULL;
  *done = n->counted_later;
  if (*done)
    return NULL;
  n->count++;
  return wrong_count(path, n, "at least ");
}

static error *read_number(json_cursor *c, const json_path *path, TRITONSERVER_DataType datatype,
                          char *out)
{
  const char *end;
  json_peek(c);
  if (c->at >= c->end || types[datatype].form->read(c->at, &end, out) != NUMBER_READ_OK ||
      end > c->end)
    return json_fail_kind(c, path, types[datatype].access, types[datatype].expected);
  c->at = end;
  return NULL;
}

#define RELEASE_BYTES ((ptrdiff_t)4 << 20) // of text: less is not worth the call

static error *read_numbers(json_cursor *c, const json_path *path, nesting *n,
                           TRITONSERVER_DataType datatype, char *out)
{
  const json_host *host = c->host;
  number_array_reader reader = {.form = types[datatype].form,
                                .parallel = host == NULL ? NULL : host->parallel};
  const char *begin = c->at;
  const char *released = begin;
  bool done = false;
  RETURN_IF_ERROR(seek_element(c, path, n, false, &done));
  while (!done) {
    json_peek(c);
    size_t taken = number_array_read(&reader, c->at, c->end, out, n->limit - n->count, &c->at);
    if (taken == 0) {
      const json_path element = {.outer = path, .index = n->count};
      RETURN_IF_ERROR(read_number(c, &element, datatype, out));
      taken = 1;
    }
    out += taken * reader.form->size;
    n->count += taken;
    if (host != NULL && host->release_text != NULL && c->at - released >= RELEASE_BYTES) {
      host->release_text(host->context, begin, c->at);
      released = c->at;
    }
    RETURN_IF_ERROR(seek_element(c, path, n, true, &done));
  }
  return NULL;
}

// Writes a string's length and bytes at *out and moves *out past them.
static error *read_string(json_cursor *c, const json_path *path, char **out)
{
  size_t length;
  if (json_peek(c) != '"')
    return json_fail_kind_as(
        c, path, "Unable to parse JSON bytes array: attempt to access JSON non-string as string",
        "a string");
  RETURN_IF_ERROR(json_string_copy(c, path, *out + 4, &length));
  if (length > UINT32_MAX)
    return json_fail_text(path, "expected at most 4294967295 bytes");
  for (int i = 0; i < 4; i++)
    *(*out)++ = (char)(length >> 8 * i);
  *out += length;
  return NULL;
}

static error *read_strings(json_cursor *c, const json_path *path, nesting *n, char **out)
{
  bool done = false;
  RETURN_IF_ERROR(seek_element(c, path, n, false, &done));
  while (!done) {
    const json_path element = {.outer = path, .index = n->count};
    RETURN_IF_ERROR(read_string(c, &element, out));
    n->count++;
    RETURN_IF_ERROR(seek_element(c, path, n, true, &done));
  }
  return NULL;
}

// Skips to the end of the strings first, because only that bounds their size: together they are no
// longer than their text, plus their lengths.
static error *read_string_tensor(json_cursor *c, const json_path *path, uint64_t element_count,
                                 const void **data, size_t *size)
{
  bool is_array = json_peek(c) == '[';
  json_cursor rest = *c;
  RETURN_IF_ERROR(json_skip(&rest, path));
  size_t text_size = (size_t)(rest.at - c->at);
  size_t most = text_size / 2 + 1; // an element and its comma are two characters or more
  nesting n = {.limit = element_count, .counted_later = true};
  size_t room = element_count < most ? (size_t)element_count + 1 : most;
  bool fits = checked_array_size(text_size, room, sizeof(uint32_t), size);
  char *out = fits ? arena_allocate_tensor(c->arena, *size) : NULL;
  if (out == NULL)
    return error_no_memory();
  *data = out;
  char *end = out;
  RETURN_IF_ERROR(is_array ? read_strings(c, path, &n, &end) : read_string(c, path, &end));
  *size = (size_t)(end - out);
  c->at = rest.at;
  return NULL;
}

error *json_tensor_read(json_cursor *c, const json_path *path, TRITONSERVER_DataType datatype,
                        uint64_t element_count, const void **data, size_t *size)
{
  if (datatype == TRITONSERVER_TYPE_BYTES)
    return read_string_tensor(c, path, element_count, data, size);
  bool is_array = json_peek(c) == '[';
  size_t text_size = (size_t)(c->end - c->at);
  nesting n = {.limit = element_count};
  if (is_array &&
      element_count > text_size / 2) // an element and its comma are two characters or more
    return json_fail_words(path, WRONG_SHAPE,
                           "expected %" PRIu64 " elements, got at most %zu in %zu bytes of text",
                           element_count, text_size / 2, text_size);
  bool fits = checked_multiply_size(element_count, TRITONSERVER_DataTypeByteSize(datatype), size);
  char *out = fits ? arena_allocate_tensor(c->arena, *size) : NULL;
  if (out == NULL)
    return error_no_memory();
  *data = out;
  return is_array ? read_numbers(c, path, &n, datatype, out) : read_number(c, path, datatype, out);
}

// ---- writing ----

static error *write_strings(const unsigned char *in, size_t size, uint64_t count, buffer *out)
{
  for (uint64_t i = 0; i < count; i++) {
    if (size < 4)
      return error_new(ERROR_INTERNAL,
                       "expected %" PRIu64 " elements of BYTES, element %" PRIu64
                       " has no length: %zu bytes are left",
                       count, i, size);
    uint32_t length = in[0] | (uint32_t)in[1] << 8 | (uint32_t)in[2] << 16 | (uint32_t)in[3] << 24;
    in += 4;
    size -= 4;
    if (length > size)
      return error_new(ERROR_INTERNAL,
                       "element %" PRIu64 " of BYTES has length %" PRIu32
                       ", but %zu bytes are left",
                       i, length, size);
    buffer_append_json_bytes(out, (slice){(const char *)in, length});
    buffer_append_char(out, ',');
    in += length;
    size -= length;
  }
  if (size > 0)
    return error_new(ERROR_INTERNAL, "expected %" PRIu64 " elements of BYTES, %zu bytes are left",
                     count, size);
  return NULL;
}

error *json_tensor_write(TRITONSERVER_DataType datatype, const void *data, size_t size,
                         uint64_t element_count, const parallel *p, buffer *out)
{
  size_t element_size = TRITONSERVER_DataTypeByteSize(datatype);
  size_t expected;
  buffer_append_char(out, '[');
  if (datatype == TRITONSERVER_TYPE_BYTES) {
    RETURN_IF_ERROR(write_strings(data, size, element_count, out));
  } else if (element_size == 0 ||
             !checked_multiply_size(element_size, (size_t)element_count, &expected) ||
             expected != size) {
    return error_new(ERROR_INTERNAL, "has %zu bytes, expected %" PRIu64 " elements of %zu bytes",
                     size, element_count, element_size);
  } else if (!number_array_print(types[datatype].form, p, data, element_count, out)) {
    return error_no_memory();
  }
  if (element_count > 0 && !out->failed)
    out->size--; // the last comma
  buffer_append_char(out, ']');
  return out->failed ? error_no_memory() : NULL;
}

error *json_element_write(TRITONSERVER_DataType datatype, const void *data, size_t size,
                          buffer *out)
{
  size_t start = out->size;
  RETURN_IF_ERROR(json_tensor_write(datatype, data, size, 1, NULL, out));
  memmove(out->data + start, out->data + start + 1, out->size - start - 2);
  out->size -= 2; // the brackets
  return NULL;
}
