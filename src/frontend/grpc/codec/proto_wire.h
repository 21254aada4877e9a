// SPDX-License-Identifier: Apache-2.0
// Texts of gRPC's messages for the north seam, and the error for a malformed message;
// base/proto_read.h has the wire format. Pure functions.
#ifndef NEREID_FRONTEND_GRPC_CODEC_PROTO_WIRE_H
#define NEREID_FRONTEND_GRPC_CODEC_PROTO_WIRE_H

#include "base/arena.h"
#include "base/error.h"
#include "base/proto_read.h"
#include "base/slice.h"

// Copies a string field to the arena, NUL-terminated. INVALID_ARG when it is not UTF-8 or holds a
// NUL, which texts of the north seam cannot.
error *proto_text(slice bytes, arena *a, const char **text);
error *proto_check_text(slice bytes);

// The error for a malformed message.
error *proto_broken(void);

#endif
