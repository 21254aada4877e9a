// SPDX-License-Identifier: Apache-2.0
// Protobuf's wire format (https://protobuf.dev/programming-guides/encoding): reads a message
// without copying it. base/proto_write.h writes one. Pure functions; any thread.
#ifndef NEREID_BASE_PROTO_READ_H
#define NEREID_BASE_PROTO_READ_H

#include "base/proto_write.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROTO_GROUP_DEPTH 100

typedef struct proto_field {
  uint32_t number;
  proto_wire_type type; // VARINT, I64, I32 or BYTES
  uint64_t value;       // of the first three
  slice bytes;          // of BYTES: a view of the message
} proto_field;

typedef struct proto_reader {
  const char *at;
  const char *end;
  bool broken; // the rest is not a message
} proto_reader;

static inline proto_reader proto_reader_of(slice message)
{
  const char *data = message.size > 0 ? message.data : "";
  return (proto_reader){.at = data, .end = data + message.size};
}

// Takes the next field; skips groups, which proto3 does not have. False at the end, and when the
// message is broken.
bool proto_next(proto_reader *r, proto_field *field);

// Takes the next field `number` that holds bytes; skips all others.
bool proto_next_bytes(proto_reader *r, uint32_t number, slice *bytes);

// Takes a varint of a packed field. False when there is none; the reader is broken then.
bool proto_next_varint(proto_reader *r, uint64_t *value);

// The number of varints in a packed field: the bytes that end one.
size_t proto_count_varints(slice packed);

#endif
