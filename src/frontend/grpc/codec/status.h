// SPDX-License-Identifier: Apache-2.0
// gRPC's status codes (https://grpc.io/docs/guides/status-codes) for the server's errors.
#ifndef NEREID_FRONTEND_GRPC_CODEC_STATUS_H
#define NEREID_FRONTEND_GRPC_CODEC_STATUS_H

#include "base/slice.h"
#include "triton/core/tritonserver.h"

#include <stddef.h>

typedef enum grpc_status {
  GRPC_UNDECIDED = -1, // none yet
  GRPC_OK = 0,
  GRPC_CANCELLED = 1,
  GRPC_UNKNOWN = 2,
  GRPC_INVALID_ARGUMENT = 3,
  GRPC_DEADLINE_EXCEEDED = 4,
  GRPC_NOT_FOUND = 5,
  GRPC_ALREADY_EXISTS = 6,
  GRPC_PERMISSION_DENIED = 7,
  GRPC_RESOURCE_EXHAUSTED = 8,
  GRPC_UNIMPLEMENTED = 12,
  GRPC_INTERNAL = 13,
  GRPC_UNAVAILABLE = 14,
  GRPC_UNAUTHENTICATED = 16,
} grpc_status;

// The status for an error of the core.
grpc_status grpc_status_of(TRITONSERVER_Error_Code code);

// Escapes `text` for grpc-message: all but printable ASCII, and '%', as %XX. `to` must have room
// for 3 * text.size bytes; returns how many were written.
size_t grpc_status_escape(slice text, char *to);

#endif
