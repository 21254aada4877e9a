// SPDX-License-Identifier: Apache-2.0
// Shapes as values.
#include "backend_shape.h"

#include "backend_error.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TRITONSERVER_Error *backend_shape_set(backend_shape *shape, const int64_t *dims, size_t rank,
                                      const char *what)
{
  if (rank > BACKEND_MAX_RANK)
    return backend_error_invalid("'%s' has %zu dimensions, at most %d are supported", what, rank,
                                 BACKEND_MAX_RANK);
  shape->rank = rank;
  if (rank > 0)
    memcpy(shape->dims, dims, rank * sizeof(*dims));
  return NULL;
}

static bool read_integer(const json_t *value, int64_t *integer)
{
  if (json_is_integer(value)) {
    *integer = json_integer_value(value);
    return true;
  }
  const char *text = json_string_value(value);
  return text != NULL && text_to_int64(slice_of(text), integer);
}

TRITONSERVER_Error *backend_shape_from_json(backend_shape *shape, const json_t *array,
                                            const char *what)
{
  size_t rank = json_array_size(array);
  if (rank > BACKEND_MAX_RANK)
    return backend_shape_set(shape, NULL, rank, what);
  shape->rank = rank;
  for (size_t i = 0; i < rank; i++)
    if (!read_integer(json_array_get(array, i), &shape->dims[i]))
      return backend_error_invalid("dimension %zu of '%s' is not an integer", i, what);
  return NULL;
}

const char *backend_shape_text(const backend_shape *shape, char *text)
{
  size_t used = 0;
  text[used++] = '[';
  for (size_t i = 0; i < shape->rank; i++) {
    char number[24];
    int length =
        snprintf(number, sizeof(number), i == 0 ? "%lld" : ",%lld", (long long)shape->dims[i]);
    if (used + (size_t)length + sizeof("...]") > BACKEND_SHAPE_TEXT) {
      memcpy(text + used, "...", 3);
      used += 3;
      break;
    }
    memcpy(text + used, number, (size_t)length);
    used += (size_t)length;
  }
  text[used++] = ']';
  text[used] = '\0';
  return text;
}

bool backend_element_count(const int64_t *dims, size_t rank, size_t *count)
{
  size_t product = 1;
  for (size_t i = 0; i < rank; i++)
    if (dims[i] < 0 || __builtin_mul_overflow(product, (size_t)dims[i], &product))
      return false;
  *count = product;
  return true;
}
