// Maps codes, and writes texts as HTTP/2 header fields may carry them.
#include "frontend/grpc/codec/status.h"

grpc_status grpc_status_of(TRITONSERVER_Error_Code code)
{
  switch (code) {
  case TRITONSERVER_ERROR_INTERNAL:
    return GRPC_INTERNAL;
  case TRITONSERVER_ERROR_NOT_FOUND:
    return GRPC_NOT_FOUND;
  case TRITONSERVER_ERROR_INVALID_ARG:
    return GRPC_INVALID_ARGUMENT;
  case TRITONSERVER_ERROR_UNAVAILABLE:
    return GRPC_UNAVAILABLE;
  case TRITONSERVER_ERROR_UNSUPPORTED:
    return GRPC_UNIMPLEMENTED;
  case TRITONSERVER_ERROR_ALREADY_EXISTS:
    return GRPC_ALREADY_EXISTS;
  case TRITONSERVER_ERROR_CANCELLED:
    return GRPC_CANCELLED;
  default:
    return GRPC_UNKNOWN;
  }
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
