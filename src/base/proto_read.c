// SPDX-License-Identifier: Apache-2.0
// Reads in one pass that looks only at the heads of fields.
#include "base/proto_read.h"

#include <string.h>

static bool fail(proto_reader *r)
{
  r->broken = true;
  return false;
}

bool proto_next_varint(proto_reader *r, uint64_t *value)
{
  uint64_t result = 0;
  for (unsigned shift = 0; r->at < r->end && shift < 7 * PROTO_VARINT_BYTES; shift += 7) {
    uint8_t byte = (uint8_t)*r->at++;
    result |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) {
      *value = result;
      return true;
    }
  }
  return fail(r);
}

// A fast path: most tags and sizes have one byte.
static inline bool next_short(proto_reader *r, uint64_t *value)
{
  if (r->at == r->end || (uint8_t)*r->at >= 0x80)
    return proto_next_varint(r, value);
  *value = (uint8_t)*r->at++;
  return true;
}

static bool next_bytes(proto_reader *r, uint64_t size, slice *bytes)
{
  if (size > (size_t)(r->end - r->at))
    return fail(r);
  *bytes = (slice){r->at, (size_t)size};
  r->at += size;
  return true;
}

static bool next_fixed(proto_reader *r, size_t size, uint64_t *value)
{
  slice bytes;
  if (!next_bytes(r, size, &bytes))
    return false;
  *value = 0;
  memcpy(value, bytes.data, size); // little-endian, as this machine
  return true;
}

static bool next_tag(proto_reader *r, proto_field *field)
{
  uint64_t tag;
  if (!next_short(r, &tag))
    return false;
  field->number = (uint32_t)tag >> 3;
  field->type = (proto_wire_type)(tag & 7);
  return (tag <= UINT32_MAX && field->number > 0) || fail(r);
}

static bool next_value(proto_reader *r, proto_field *field)
{
  uint64_t size;
  switch (field->type) {
  case PROTO_VARINT:
    return next_short(r, &field->value);
  case PROTO_I64:
    return next_fixed(r, 8, &field->value);
  case PROTO_I32:
    return next_fixed(r, 4, &field->value);
  case PROTO_BYTES:
    return next_short(r, &size) && next_bytes(r, size, &field->bytes);
  default:
    return fail(r);
  }
}

// Skips the content of the group that begins here, nested groups too.
static bool skip_group(proto_reader *r, uint32_t number)
{
  uint32_t open[PROTO_GROUP_DEPTH];
  size_t depth = 0;
  open[depth++] = number;
  while (depth > 0) {
    proto_field field;
    if (!next_tag(r, &field))
      return false;
    if (field.type == PROTO_GROUP_END) {
      if (open[--depth] != field.number)
        return fail(r);
    } else if (field.type == PROTO_GROUP) {
      if (depth == PROTO_GROUP_DEPTH)
        return fail(r);
      open[depth++] = field.number;
    } else if (!next_value(r, &field)) {
      return false;
    }
  }
  return true;
}

bool proto_next(proto_reader *r, proto_field *field)
{
  while (!r->broken && r->at < r->end) {
    *field = (proto_field){0};
    if (!next_tag(r, field))
      return false;
    if (field->type != PROTO_GROUP)
      return next_value(r, field);
    skip_group(r, field->number);
  }
  return false;
}

bool proto_next_bytes(proto_reader *r, uint32_t number, slice *bytes)
{
  proto_field field;
  while (proto_next(r, &field))
    if (field.number == number && field.type == PROTO_BYTES) {
      *bytes = field.bytes;
      return true;
    }
  return false;
}

size_t proto_count_varints(slice packed)
{
  size_t count = 0;
  for (size_t i = 0; i < packed.size; i++)
    count += (uint8_t)packed.data[i] < 0x80;
  return count;
}
