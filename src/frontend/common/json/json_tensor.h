// SPDX-License-Identifier: Apache-2.0
// Converts between a JSON array, or a single element, and a tensor's bytes. Pure functions.
#ifndef NEREID_FRONTEND_COMMON_JSON_JSON_TENSOR_H
#define NEREID_FRONTEND_COMMON_JSON_JSON_TENSOR_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/parallel.h"
#include "frontend/common/json/json_scan.h"
#include "triton/core/tritonserver.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

// The type of this name, exactly spelled; else TRITONSERVER_TYPE_INVALID.
static inline TRITONSERVER_DataType datatype_named(slice name)
{
  char text[16] = "";
  if (name.size >= sizeof(text) || strnlen(name.data, name.size) < name.size)
    return TRITONSERVER_TYPE_INVALID;
  memcpy(text, name.data, name.size);
  return TRITONSERVER_StringToDataType(text);
}

// Takes an array, flat or nested in any way, of exactly `element_count` elements; *data (in the
// cursor's arena, aligned to BLOCK_ALIGNMENT) and *size are its bytes. Memory is allocated only
// when the text is long enough for so many elements. A value that is no array counts as a single
// element. Strings are counted by the core: see infer_request_json_read.
error *json_tensor_read(json_cursor *c, const json_path *path, TRITONSERVER_DataType datatype,
                        uint64_t element_count, const void **data, size_t *size);

// Appends `element_count` elements as a flat array; `p` prints long ones, or is NULL. INTERNAL when
// `size` does not fit them.
error *json_tensor_write(TRITONSERVER_DataType datatype, const void *data, size_t size,
                         uint64_t element_count, const parallel *p, buffer *out);

// The same for a tensor of one element, without brackets.
error *json_element_write(TRITONSERVER_DataType datatype, const void *data, size_t size,
                          buffer *out);

#endif
