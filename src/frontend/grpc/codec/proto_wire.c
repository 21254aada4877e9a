// SPDX-License-Identifier: Apache-2.0
// Checks and copies texts of messages.
#include "frontend/grpc/codec/proto_wire.h"

#include "base/text.h"

static error *refuse_text(uint8_t c)
{
  return error_new(ERROR_INVALID_ARG, "Unable to parse request: a string %s",
                   c == 0 ? "has a NUL character" : "is not UTF-8");
}

// A fast path for ASCII, as most characters are.
error *proto_check_text(slice bytes)
{
  for (size_t i = 0; i < bytes.size;) {
    const uint8_t c = (uint8_t)bytes.data[i];
    if (c > 0 && c < 0x80) {
      i++;
      continue;
    }
    size_t length = c == 0 ? 0 : text_utf8_length(bytes.data + i, bytes.size - i);
    if (length == 0)
      return refuse_text(c);
    i += length;
  }
  return NULL;
}

error *proto_text(slice bytes, arena *a, const char **text)
{
  RETURN_IF_ERROR(proto_check_text(bytes));
  const char *copy = arena_copy_text(a, bytes);
  if (copy == NULL)
    return error_no_memory(); // *text keeps its value, which replies may use
  *text = copy;
  return NULL;
}

error *proto_broken(void)
{
  return error_new(ERROR_INVALID_ARG,
                   "Unable to parse request: it is not a message in protobuf's wire format");
}
