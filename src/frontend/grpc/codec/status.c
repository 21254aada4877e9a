// SPDX-License-Identifier: Apache-2.0
// Maps codes, and escapes texts for HTTP/2 header fields.
#include "frontend/grpc/codec/status.h"

grpc_status grpc_status_of(TRITONSERVER_Error_Code code)
{
  static const grpc_status statuses[] = {
      [TRITONSERVER_ERROR_UNKNOWN] = GRPC_UNKNOWN,
      [TRITONSERVER_ERROR_INTERNAL] = GRPC_INTERNAL,
      [TRITONSERVER_ERROR_NOT_FOUND] = GRPC_NOT_FOUND,
      [TRITONSERVER_ERROR_INVALID_ARG] = GRPC_INVALID_ARGUMENT,
      [TRITONSERVER_ERROR_UNAVAILABLE] = GRPC_UNAVAILABLE,
      [TRITONSERVER_ERROR_UNSUPPORTED] = GRPC_UNIMPLEMENTED,
      [TRITONSERVER_ERROR_ALREADY_EXISTS] = GRPC_ALREADY_EXISTS,
      [TRITONSERVER_ERROR_CANCELLED] = GRPC_CANCELLED,
  };
  return (size_t)code < sizeof(statuses) / sizeof(statuses[0]) ? statuses[code] : GRPC_UNKNOWN;
}

size_t grpc_status_escape(slice text, char *to)
{
  static const char digits[] = "0123456789ABCDEF";
  char *start = to;
  for (size_t i = 0; i < text.size; i++) {
    unsigned char c = (unsigned char)text.data[i];
    if (c >= 0x20 && c < 0x7f && c != '%') {
      *to++ = (char)c;
      continue;
    }
    *to++ = '%';
    *to++ = digits[c >> 4];
    *to++ = digits[c & 15];
  }
  return (size_t)(to - start);
}
