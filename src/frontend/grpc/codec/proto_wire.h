// SPDX-License-Identifier: Apache-2.0
// What gRPC's messages have beyond protobuf's wire format (base/proto_read.h): texts for the north
// seam, and the error of what is no message. Pure functions.
#ifndef NEREID_FRONTEND_GRPC_CODEC_PROTO_WIRE_H
#define NEREID_FRONTEND_GRPC_CODEC_PROTO_WIRE_H

#include "base/arena.h"
#include "base/error.h"
#include "base/proto_read.h"
#include "base/slice.h"

// A string field's bytes as NUL-terminated text in the arena. INVALID_ARG when they are not UTF-8
// or hold a NUL, which texts of the north seam cannot.
error *proto_text(slice bytes, arena *a, const char **text);
error *proto_check_text(slice bytes);

// The error of a broken message.
error *proto_broken(void);

#endif
