// SPDX-License-Identifier: Apache-2.0
// A JSON array, or a single element, as a tensor's bytes. Pure functions.
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

// The type of a name on the wire; TRITONSERVER_TYPE_INVALID for one that is none; exact spelling.
static inline TRITONSERVER_DataType datatype_named(slice name)
{
  char text[16] = "";
  if (name.size >= sizeof(text) || strnlen(name.data, name.size) < name.size)
    return TRITONSERVER_TYPE_INVALID;
  memcpy(text, name.data, name.size);
  return TRITONSERVER_StringToDataType(text);
}

// Takes an array, flat or nested in any way, that holds exactly `element_count` elements of the
// type; *data (in the cursor's arena, aligned to BLOCK_ALIGNMENT) and *size are its bytes.
// Memory is allocated only when the text is long enough for so many elements. What is no array is
// taken as the single element of a tensor of one.
error *json_tensor_read(json_cursor *c, const json_path *path, TRITONSERVER_DataType datatype,
                        uint64_t element_count, const void **data, size_t *size);

// Appends `element_count` elements as a flat array; `p` prints long ones, or is NULL. INTERNAL when
// `size` bytes are not exactly that.
error *json_tensor_write(TRITONSERVER_DataType datatype, const void *data, size_t size,
                         uint64_t element_count, const parallel *p, buffer *out);

// The same for the only element of a tensor, without brackets.
error *json_element_write(TRITONSERVER_DataType datatype, const void *data, size_t size,
                          buffer *out);

#endif
