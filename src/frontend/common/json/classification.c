// SPDX-License-Identifier: Apache-2.0
// Each element becomes an integer of the same order, so that one search serves all types. The
// search keeps the best in a heap whose root is the worst of them.
#include "frontend/common/json/classification.h"

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/number.h"
#include "frontend/common/observe/abi_error.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct candidate {
  uint64_t rank; // in the order of the values
  uint32_t index;
} candidate;

typedef enum element_kind {
  KIND_NONE,
  KIND_UNSIGNED,
  KIND_SIGNED,
  KIND_FLOAT
} element_kind;

// How the elements of an output are read.
typedef struct element_form {
  TRITONSERVER_DataType datatype;
  size_t size; // bytes
  element_kind kind;
} element_form;

static element_form form_of(TRITONSERVER_DataType datatype)
{
  element_form f = {datatype, TRITONSERVER_DataTypeByteSize(datatype), KIND_NONE};
  if (datatype >= TRITONSERVER_TYPE_UINT8 && datatype <= TRITONSERVER_TYPE_UINT64)
    f.kind = KIND_UNSIGNED;
  else if (datatype >= TRITONSERVER_TYPE_INT8 && datatype <= TRITONSERVER_TYPE_INT64)
    f.kind = KIND_SIGNED;
  else if ((datatype >= TRITONSERVER_TYPE_FP16 && datatype <= TRITONSERVER_TYPE_FP64) ||
           datatype == TRITONSERVER_TYPE_BF16)
    f.kind = KIND_FLOAT;
  return f;
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
static uint64_t read_integer(const element_form *f, const char *from)
{
  uint64_t value = 0;
  unsigned unused = 64 - 8 * (unsigned)f->size;
  memcpy(&value, from, f->size);
  return f->kind == KIND_SIGNED ? (uint64_t)((int64_t)(value << unused) >> unused) : value;
}

static uint64_t rank_of(const element_form *f, const char *from)
{
  const uint64_t sign = (uint64_t)1 << 63;
  if (f->kind != KIND_FLOAT)
    return read_integer(f, from) ^ (f->kind == KIND_SIGNED ? sign : 0);
  double value = read_float(f->datatype, from);
  if (isnan(value))
    return 0;
  value = value == 0 ? 0 : value; // both zeroes are equal
  uint64_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return (bits & sign) != 0 ? ~bits : bits | sign;
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

// Replaces the heap's root by `c`; below each candidate are only better ones.
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

// Fills `best` with the row's `count` best elements, in order.
static void find_best(const element_form *f, const char *row, size_t element_count, candidate *best,
                      size_t count)
{
  for (size_t i = 0; i < element_count; i++) {
    const candidate c = {rank_of(f, row + i * f->size), (uint32_t)i};
    if (i < count)
      best[i] = c;
    if (i + 1 == count)
      qsort(best, count, sizeof(*best), worst_first); // a sorted array is a heap
    if (i >= count && comes_before(c, best[0]))
      replace_root(best, count, c);
  }
  qsort(best, count, sizeof(*best), best_first);
}

// ---- strings ----

static error *append_class(const class_scores *s, const element_form *f, const char *row,
                           uint32_t index, buffer *out)
{
  const char *element = row + index * f->size;
  const char *label = NULL;
  uint32_t length = 0;
  size_t start = out->size + sizeof(length);
  RETURN_IF_ERROR(error_from_abi(TRITONSERVER_InferenceResponseOutputClassificationLabel(
      s->response, s->index, index, &label)));
  buffer_append(out, &length, sizeof(length));
  if (f->kind == KIND_FLOAT)
    buffer_append_format(out, "%f", read_float(f->datatype, element));
  else if (f->kind == KIND_SIGNED)
    buffer_append_format(out, "%" PRId64, (int64_t)read_integer(f, element));
  else
    buffer_append_format(out, "%" PRIu64, read_integer(f, element));
  buffer_append_format(out, ":%" PRIu32 "%s%s", index, label == NULL ? "" : ":",
                       label == NULL ? "" : label);
  if (out->failed)
    return error_new(ERROR_UNAVAILABLE, "out of memory");
  length = (uint32_t)(out->size - start);
  memcpy(out->data + start - sizeof(length), &length, sizeof(length));
  return out->size <= CLASSIFICATION_MAX_BYTES
             ? NULL
             : error_new(ERROR_INVALID_ARG, "classification output tensor too large");
}

// ---- the whole ----

// Counts rows and the elements of each. False when the shape is invalid or does not fit the size.
static bool measure(const class_scores *s, const element_form *f, size_t *rows,
                    size_t *element_count)
{
  const response_output_json *o = &s->output;
  size_t total;
  *rows = *element_count = 1;
  for (size_t i = 0; i < o->shape_count; i++) {
    size_t *product = s->has_rows && i == 0 ? rows : element_count;
    if (o->shape[i] < 0 || !checked_multiply_size(*product, (size_t)o->shape[i], product))
      return false;
  }
  return checked_multiply_size(*rows, *element_count, &total) &&
         checked_multiply_size(total, f->size, &total) && total == o->data_size;
}

error *classification_make(const class_scores *s, uint64_t class_count, class_strings *strings)
{
  const response_output_json *o = &s->output;
  const element_form form = form_of(o->datatype);
  size_t rows, element_count, string_count;
  if (form.kind == KIND_NONE)
    return error_new(ERROR_INVALID_ARG,
                     "class result not available for output due to unsupported type '%s'",
                     TRITONSERVER_DataTypeString(o->datatype));
  if (!measure(s, &form, &rows, &element_count))
    return error_new(ERROR_INTERNAL,
                     "the size of an output to be classified is not that of its shape");
  size_t count = class_count < element_count ? (size_t)class_count : element_count;
  if (element_count > CLASSIFICATION_MAX_ELEMENTS ||
      !checked_multiply_size(rows, count, &string_count) ||
      string_count > CLASSIFICATION_MAX_ELEMENTS)
    return error_new(ERROR_INVALID_ARG, "classification output tensor too large");
  strings->shape_count = 0;
  if (s->has_rows && o->shape_count > 0)
    strings->shape[strings->shape_count++] = (int64_t)rows;
  strings->shape[strings->shape_count++] = (int64_t)count;
  AUTO_FREE candidate *best = calloc(count + 1, sizeof(*best));
  if (best == NULL)
    return error_new(ERROR_UNAVAILABLE, "out of memory");
  for (size_t r = 0; r < rows && count > 0; r++) {
    const char *row = (const char *)o->data + r * (o->data_size / rows);
    find_best(&form, row, element_count, best, count);
    for (size_t i = 0; i < count; i++)
      RETURN_IF_ERROR(append_class(s, &form, row, best[i].index, &strings->elements));
  }
  return NULL;
}
