// SPDX-License-Identifier: Apache-2.0
// Prints tensors for traces. See record.h.
#include "frontend/common/json/json_tensor.h"
#include "frontend/trace/record.h"

#include <string.h>

#define BLOCK_ELEMENTS 4096 // between checks of the limit

static bool append_texts(buffer *out, const char *base, size_t size, size_t limit)
{
  size_t at = 0, start = out->size;
  for (bool first = true; size - at >= sizeof(uint32_t); first = false) {
    uint32_t length;
    memcpy(&length, base + at, sizeof(length));
    at += sizeof(length);
    if (length > size - at)
      return true; // not BYTES: nothing to print
    if (out->size - start > limit || length > limit)
      return false;
    buffer_append_text(out, first ? "\"" : ",\"");
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
  if (datatype == TRITONSERVER_TYPE_BOOL)
    datatype = TRITONSERVER_TYPE_UINT8; // as 0 and 1
  const size_t element_size = TRITONSERVER_DataTypeByteSize(datatype), start = out->size;
  size_t left = element_size == 0 ? 0 : size / element_size;
  for (const char *at = base; left > 0 && out->size - start <= limit && !out->failed;) {
    size_t count = left < BLOCK_ELEMENTS ? left : BLOCK_ELEMENTS, begin = out->size;
    error_free(json_tensor_write(datatype, at, count * element_size, count, NULL, out));
    if (out->failed)
      break;
    // Removes the closing bracket, and makes the opening one a comma, or removes the first.
    out->size--;
    out->data[begin] = ',';
    if (begin == start)
      memmove(out->data + begin, out->data + begin + 1, --out->size - begin);
    at += count * element_size;
    left -= count;
  }
  return out->size - start <= limit;
}
