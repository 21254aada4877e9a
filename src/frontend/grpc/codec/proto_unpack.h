// SPDX-License-Identifier: Apache-2.0
// Reads request messages of control calls with protobuf-c. Pure; any thread.
#ifndef NEREID_FRONTEND_GRPC_CODEC_PROTO_UNPACK_H
#define NEREID_FRONTEND_GRPC_CODEC_PROTO_UNPACK_H

#include "base/arena.h"
#include "base/error.h"
#include "base/slice.h"

#include <protobuf-c/protobuf-c.h>

#define PROTO_UNPACK_FIELDS_MAX 16384

// Reads a message into the arena. protobuf-c needs some hundred bytes for a field of two, so a
// message with more than PROTO_UNPACK_FIELDS_MAX fields, nested ones included, is refused.
// INVALID_ARG for that, for malformed messages, and for strings that are not UTF-8 or hold a NUL;
// UNAVAILABLE when memory is short.
error *proto_unpack(slice message, const ProtobufCMessageDescriptor *type, arena *a,
                    ProtobufCMessage **result);

#endif
