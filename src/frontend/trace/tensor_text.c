// Tensors as text: see tensor_text.h.
#include "frontend/trace/tensor_text.h"

#include "base/number.h"

#include <string.h>

static void append_separator(buffer *out, bool first)
{
  if (!first)
    buffer_append_char(out, ',');
}

#define LOAD(type)                                                                                 \
  type value;                                                                                      \
  memcpy(&value, element, sizeof(value))

// Writes one element of a fixed size to `text`, which has NUMBER_TEXT_BYTES.
static size_t print_element(char *text, TRITONSERVER_DataType datatype, const char *element)
{
  switch (datatype) {
  case TRITONSERVER_TYPE_BOOL:
  case TRITONSERVER_TYPE_UINT8: {
    LOAD(uint8_t);
    return number_print_u64(text, value);
  }
  case TRITONSERVER_TYPE_UINT16: {
    LOAD(uint16_t);
    return number_print_u64(text, value);
  }
  case TRITONSERVER_TYPE_UINT32: {
    LOAD(uint32_t);
    return number_print_u64(text, value);
  }
  case TRITONSERVER_TYPE_UINT64: {
    LOAD(uint64_t);
    return number_print_u64(text, value);
  }
  case TRITONSERVER_TYPE_INT8: {
    LOAD(int8_t);
    return number_print_i64(text, value);
  }
  case TRITONSERVER_TYPE_INT16: {
    LOAD(int16_t);
    return number_print_i64(text, value);
  }
  case TRITONSERVER_TYPE_INT32: {
    LOAD(int32_t);
    return number_print_i64(text, value);
  }
  case TRITONSERVER_TYPE_INT64: {
    LOAD(int64_t);
    return number_print_i64(text, value);
  }
  case TRITONSERVER_TYPE_FP16: {
    LOAD(uint16_t);
    return number_print_f16(text, value);
  }
  case TRITONSERVER_TYPE_BF16: {
    LOAD(uint16_t);
    return number_print_bf16(text, value);
  }
  case TRITONSERVER_TYPE_FP32: {
    LOAD(float);
    return number_print_f32(text, value);
  }
  case TRITONSERVER_TYPE_FP64: {
    LOAD(double);
    return number_print_f64(text, value);
  }
  default:
    return 0;
  }
}

static bool append_texts(buffer *out, const char *base, size_t size, size_t limit)
{
  size_t at = 0, start = out->size;
  for (bool first = true; size - at >= sizeof(uint32_t); first = false) {
    uint32_t length;
    memcpy(&length, base + at, sizeof(length));
    at += sizeof(length);
    if (length > size - at)
      return true; // the backend's bytes are no texts: there is nothing to show
    if (out->size - start > limit || length > limit)
      return false;
    append_separator(out, first);
    buffer_append_char(out, '"');
    buffer_append(out, base + at, length);
    buffer_append_char(out, '"');
    at += length;
  }
  return true;
}

bool tensor_text_append(buffer *out, TRITONSERVER_DataType datatype, const void *base, size_t size,
                        size_t limit)
{
  if (datatype == TRITONSERVER_TYPE_BYTES)
    return append_texts(out, base, size, limit);
  size_t element_size = TRITONSERVER_DataTypeByteSize(datatype), start = out->size;
  for (size_t at = 0; element_size > 0 && size - at >= element_size; at += element_size) {
    if (out->size - start > limit)
      return false;
    append_separator(out, at == 0);
    char *text = buffer_reserve(out, NUMBER_TEXT_BYTES);
    if (text != NULL)
      out->size += print_element(text, datatype, (const char *)base + at);
  }
  return true;
}

void shape_text_append(buffer *out, const int64_t *dims, uint64_t dim_count)
{
  for (uint64_t i = 0; i < dim_count; i++) {
    append_separator(out, i == 0);
    char *text = buffer_reserve(out, NUMBER_TEXT_BYTES);
    if (text != NULL)
      out->size += number_print_i64(text, dims[i]);
  }
}
