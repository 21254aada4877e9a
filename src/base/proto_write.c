// SPDX-License-Identifier: Apache-2.0
// Writes at the end of a buffer; see proto_write.h.
#include "base/proto_write.h"

#include <string.h>

static size_t print_varint(char to[PROTO_VARINT_BYTES], uint64_t value)
{
  size_t size = 0;
  for (; value >= 0x80; value >>= 7)
    to[size++] = (char)(value | 0x80);
  to[size++] = (char)value;
  return size;
}

void proto_append_varint(buffer *out, uint64_t value)
{
  char *to = buffer_reserve(out, PROTO_VARINT_BYTES);
  if (to != NULL)
    out->size += print_varint(to, value);
}

void proto_append_tag(buffer *out, uint32_t number, proto_wire_type type)
{
  proto_append_varint(out, (uint64_t)number << 3 | type);
}

void proto_append_integer(buffer *out, uint32_t number, uint64_t value)
{
  proto_append_tag(out, number, PROTO_VARINT);
  proto_append_varint(out, value);
}

void proto_append_fixed64(buffer *out, uint32_t number, uint64_t value)
{
  proto_append_tag(out, number, PROTO_I64);
  buffer_append(out, &value, sizeof(value)); // little-endian, as this machine
}

void proto_append_double(buffer *out, uint32_t number, double value)
{
  uint64_t bits;
  memcpy(&bits, &value, sizeof(bits));
  proto_append_fixed64(out, number, bits);
}

void proto_append_bytes(buffer *out, uint32_t number, slice value)
{
  char *to = buffer_reserve(out, 2 * PROTO_VARINT_BYTES + value.size);
  if (to == NULL)
    return;
  size_t size = print_varint(to, (uint64_t)number << 3 | PROTO_BYTES);
  size += print_varint(to + size, value.size);
  out->size += size;
  buffer_append_slice(out, value);
}

void proto_append_text(buffer *out, uint32_t number, const char *value)
{
  if (value[0] != '\0')
    proto_append_bytes(out, number, slice_of(value));
}

size_t proto_begin(buffer *out, uint32_t number)
{
  char *to = buffer_reserve(out, PROTO_VARINT_BYTES + 1);
  if (to != NULL)
    out->size += print_varint(to, (uint64_t)number << 3 | PROTO_BYTES) + 1; // 1: most sizes
  return out->size;
}

// The size stands before the content; its own length is known only now.
void proto_end(buffer *out, size_t begin)
{
  char bytes[PROTO_VARINT_BYTES];
  size_t content = out->size - begin, more = print_varint(bytes, content) - 1;
  if (out->failed || (more > 0 && buffer_reserve(out, more) == NULL))
    return;
  if (more > 0)
    memmove(out->data + begin + more, out->data + begin, content);
  memcpy(out->data + begin - 1, bytes, more + 1);
  out->size += more;
}
