// Elements become integers that order as they do, so that one search serves all types: a heap of
// the best, whose root is the worst of them.
#include "frontend/common/json/classification.h"

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/number.h"
#include "frontend/common/json/datatype.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALUE_TEXT_BYTES 352 // the longest double without an exponent has 317

typedef struct candidate {
  uint64_t rank; // orders as the value
  uint32_t index;
} candidate;

// How a type is read.
typedef enum number_kind {
  KIND_NONE,
  KIND_UNSIGNED,
  KIND_SIGNED,
  KIND_FLOAT,
} number_kind;

typedef struct number {
  number_kind kind;
  union {
    uint64_t natural;
    int64_t integer;
    double real;
  } value;
} number;

static TRITONSERVER_Error *refuse(TRITONSERVER_Error_Code code, const char *text)
{
  return TRITONSERVER_ErrorNew(code, text);
}

static number_kind kind_of(TRITONSERVER_DataType datatype)
{
  switch (datatype) {
  case TRITONSERVER_TYPE_UINT8:
  case TRITONSERVER_TYPE_UINT16:
  case TRITONSERVER_TYPE_UINT32:
  case TRITONSERVER_TYPE_UINT64:
    return KIND_UNSIGNED;
  case TRITONSERVER_TYPE_INT8:
  case TRITONSERVER_TYPE_INT16:
  case TRITONSERVER_TYPE_INT32:
  case TRITONSERVER_TYPE_INT64:
    return KIND_SIGNED;
  case TRITONSERVER_TYPE_FP16:
  case TRITONSERVER_TYPE_BF16:
  case TRITONSERVER_TYPE_FP32:
  case TRITONSERVER_TYPE_FP64:
    return KIND_FLOAT;
  default:
    return KIND_NONE;
  }
}

static double read_float(TRITONSERVER_DataType datatype, const void *from)
{
  uint16_t half;
  float single;
  double full;
  switch (datatype) {
  case TRITONSERVER_TYPE_FP16:
    memcpy(&half, from, sizeof(half));
    return number_f16_to_f32(half);
  case TRITONSERVER_TYPE_BF16:
    memcpy(&half, from, sizeof(half));
    return number_bf16_to_f32(half);
  case TRITONSERVER_TYPE_FP32:
    memcpy(&single, from, sizeof(single));
    return single;
  default:
    memcpy(&full, from, sizeof(full));
    return full;
  }
}

// Little-endian, as all tensors are.
static number read_number(TRITONSERVER_DataType datatype, const char *from)
{
  size_t size = protocol_datatype_size(datatype);
  number n = {.kind = kind_of(datatype)};
  if (n.kind == KIND_FLOAT) {
    n.value.real = read_float(datatype, from);
    return n;
  }
  memcpy(&n.value.natural, from, size);
  unsigned unused = 64 - 8 * (unsigned)size;
  if (n.kind == KIND_SIGNED) // spreads the sign
    n.value.integer = (int64_t)(n.value.natural << unused) >> unused;
  return n;
}

static uint64_t rank_of(number n)
{
  const uint64_t sign = (uint64_t)1 << 63;
  if (n.kind == KIND_UNSIGNED)
    return n.value.natural;
  if (n.kind == KIND_SIGNED)
    return n.value.natural ^ sign;
  if (isnan(n.value.real))
    return 0;
  double value = n.value.real == 0 ? 0 : n.value.real; // both zeroes are equal
  uint64_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return (bits & sign) != 0 ? ~bits : bits | sign;
}

static size_t print_number(number n, char text[VALUE_TEXT_BYTES])
{
  int size = n.kind == KIND_UNSIGNED ? snprintf(text, VALUE_TEXT_BYTES, "%" PRIu64, n.value.natural)
             : n.kind == KIND_SIGNED ? snprintf(text, VALUE_TEXT_BYTES, "%" PRId64, n.value.integer)
                                     : snprintf(text, VALUE_TEXT_BYTES, "%f", n.value.real);
  return (size_t)size;
}

// ---- the best of a row ----

static bool comes_before(candidate a, candidate b)
{
  return a.rank != b.rank ? a.rank > b.rank : a.index < b.index;
}

static int best_first(const void *a, const void *b)
{
  return comes_before(*(const candidate *)a, *(const candidate *)b) ? -1 : 1;
}

static int worst_first(const void *a, const void *b)
{
  return best_first(b, a);
}

static candidate candidate_at(TRITONSERVER_DataType datatype, const char *row, size_t index)
{
  const char *element = row + index * protocol_datatype_size(datatype);
  return (candidate){rank_of(read_number(datatype, element)), (uint32_t)index};
}

// Puts `c` where the root was; below each candidate there are only better ones.
static void replace_root(candidate *heap, size_t count, candidate c)
{
  size_t at = 0;
  for (;;) {
    size_t child = 2 * at + 1;
    if (child >= count)
      break;
    if (child + 1 < count && comes_before(heap[child], heap[child + 1]))
      child++;
    if (!comes_before(c, heap[child]))
      break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = c;
}

// Fills `best` with the `count` best of the row's elements, in order.
static void find_best(TRITONSERVER_DataType datatype, const char *row, size_t element_count,
                      candidate *best, size_t count)
{
  for (size_t i = 0; i < count; i++)
    best[i] = candidate_at(datatype, row, i);
  qsort(best, count, sizeof(*best), worst_first); // which is a heap
  for (size_t i = count; i < element_count; i++) {
    candidate c = candidate_at(datatype, row, i);
    if (comes_before(c, best[0]))
      replace_root(best, count, c);
  }
  qsort(best, count, sizeof(*best), best_first);
}

// ---- strings ----

static TRITONSERVER_Error *append_class(const class_scores *s, const char *row, uint32_t index,
                                        buffer *out)
{
  char text[VALUE_TEXT_BYTES + 16];
  const char *label = NULL;
  const char *element = row + index * protocol_datatype_size(s->datatype);
  size_t size = print_number(read_number(s->datatype, element), text);
  size += (size_t)snprintf(text + size, sizeof(text) - size, ":%" PRIu32, index);
  TRITONSERVER_Error *e =
      TRITONSERVER_InferenceResponseOutputClassificationLabel(s->response, s->index, index, &label);
  if (e != NULL)
    return e;
  slice name = label == NULL ? (slice){"", 0} : slice_of(label);
  uint32_t length = (uint32_t)(size + name.size + (label != NULL));
  buffer_append(out, &length, sizeof(length));
  buffer_append(out, text, size);
  if (label != NULL)
    buffer_append_char(out, ':');
  buffer_append_slice(out, name);
  if (out->failed)
    return refuse(TRITONSERVER_ERROR_UNAVAILABLE, "out of memory");
  return out->size <= CLASSIFICATION_MAX_BYTES
             ? NULL
             : refuse(TRITONSERVER_ERROR_INVALID_ARG, "classification output tensor too large");
}

static TRITONSERVER_Error *append_row(const class_scores *s, const char *row, size_t element_count,
                                      candidate *best, size_t count, buffer *out)
{
  find_best(s->datatype, row, element_count, best, count);
  for (size_t i = 0; i < count; i++) {
    TRITONSERVER_Error *e = append_class(s, row, best[i].index, out);
    if (e != NULL)
      return e;
  }
  return NULL;
}

// ---- the whole ----

// Rows and the elements of each. False when the shape cannot be or the size is another.
static bool measure(const class_scores *s, size_t *rows, size_t *element_count)
{
  bool has_rows = s->has_rows && s->shape_count > 0;
  size_t total;
  *rows = *element_count = 1;
  for (size_t i = 0; i < s->shape_count; i++) {
    size_t *product = has_rows && i == 0 ? rows : element_count;
    if (s->shape[i] < 0 || !checked_multiply_size(*product, (size_t)s->shape[i], product))
      return false;
  }
  return checked_multiply_size(*rows, *element_count, &total) &&
         checked_multiply_size(total, protocol_datatype_size(s->datatype), &total) &&
         total == s->size;
}

static TRITONSERVER_Error *refuse_type(TRITONSERVER_DataType datatype)
{
  char text[128];
  snprintf(text, sizeof(text), "class result not available for output due to unsupported type '%s'",
           TRITONSERVER_DataTypeString(datatype));
  return refuse(TRITONSERVER_ERROR_INVALID_ARG, text);
}

TRITONSERVER_Error *classification_make(const class_scores *s, uint64_t class_count,
                                        class_strings *strings)
{
  size_t rows, element_count, string_count;
  if (kind_of(s->datatype) == KIND_NONE)
    return refuse_type(s->datatype);
  if (!measure(s, &rows, &element_count))
    return refuse(TRITONSERVER_ERROR_INTERNAL,
                  "the size of an output to be classified is not that of its shape");
  size_t count = class_count < element_count ? (size_t)class_count : element_count;
  if (element_count > CLASSIFICATION_MAX_ELEMENTS ||
      !checked_multiply_size(rows, count, &string_count) ||
      string_count > CLASSIFICATION_MAX_ELEMENTS)
    return refuse(TRITONSERVER_ERROR_INVALID_ARG, "classification output tensor too large");
  strings->shape_count = 0;
  if (s->has_rows && s->shape_count > 0)
    strings->shape[strings->shape_count++] = (int64_t)rows;
  strings->shape[strings->shape_count++] = (int64_t)count;
  AUTO_FREE candidate *best = calloc(count + 1, sizeof(*best));
  if (best == NULL)
    return refuse(TRITONSERVER_ERROR_UNAVAILABLE, "out of memory");
  TRITONSERVER_Error *e = NULL;
  for (size_t r = 0; r < rows && count > 0 && e == NULL; r++) {
    const char *row = (const char *)s->data + r * (s->size / rows);
    e = append_row(s, row, element_count, best, count, &strings->elements);
  }
  return e;
}
