// SPDX-License-Identifier: Apache-2.0
// Request messages of control calls, read by protobuf-c. Pure; any thread.
#ifndef NEREID_FRONTEND_GRPC_CODEC_PROTO_UNPACK_H
#define NEREID_FRONTEND_GRPC_CODEC_PROTO_UNPACK_H

#include "base/arena.h"
#include "base/error.h"
#include "base/slice.h"

#include <protobuf-c/protobuf-c.h>

#define PROTO_UNPACK_FIELDS_MAX 16384

// Reads a message into the arena: nobody frees it. protobuf-c makes some hundred bytes of a field
// of two, so a message of more than PROTO_UNPACK_FIELDS_MAX fields, those of messages within too,
// is refused before. INVALID_ARG for that, for what is not such a message, and for strings that are
// not UTF-8; UNAVAILABLE when memory is short.
error *proto_unpack(slice message, const ProtobufCMessageDescriptor *type, arena *a,
                    ProtobufCMessage **result);

#endif
