// SPDX-License-Identifier: Apache-2.0
// Protobuf's wire format (https://protobuf.dev/programming-guides/encoding): writes messages, for
// gRPC's replies and OpenTelemetry's spans. Pure functions; buffer.failed tells whether memory was
// short.
#ifndef NEREID_BASE_PROTO_WRITE_H
#define NEREID_BASE_PROTO_WRITE_H

#include "base/buffer.h"
#include "base/slice.h"

#include <stddef.h>
#include <stdint.h>

#define PROTO_VARINT_BYTES 10

typedef enum proto_wire_type {
  PROTO_VARINT = 0,
  PROTO_I64 = 1,
  PROTO_BYTES = 2,
  PROTO_GROUP = 3,
  PROTO_GROUP_END = 4,
  PROTO_I32 = 5,
} proto_wire_type;

void proto_append_varint(buffer *out, uint64_t value);
void proto_append_tag(buffer *out, uint32_t number, proto_wire_type type);

// Appends a field with its tag.
void proto_append_integer(buffer *out, uint32_t number, uint64_t value);
void proto_append_fixed64(buffer *out, uint32_t number, uint64_t value);
void proto_append_double(buffer *out, uint32_t number, double value);
void proto_append_bytes(buffer *out, uint32_t number, slice value);
void proto_append_text(buffer *out, uint32_t number, const char *value); // nothing for ""

// An embedded message: its content is appended between begin and end.
size_t proto_begin(buffer *out, uint32_t number);
void proto_end(buffer *out, size_t begin);

#endif
