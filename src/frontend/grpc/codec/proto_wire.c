// Reading by one pass that only looks at heads of fields; writing at the end of a buffer.
#include "frontend/grpc/codec/proto_wire.h"

#include "base/text.h"

#include <assert.h>
#include <string.h>

// ---- reading ----

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

// Tags and sizes are of one byte, mostly.
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

// Skips what is within the group that begins, groups within too.
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

size_t proto_count_varints(slice packed)
{
  size_t count = 0;
  for (size_t i = 0; i < packed.size; i++)
    count += (uint8_t)packed.data[i] < 0x80;
  return count;
}

static error *refuse_text(uint8_t c)
{
  return error_new(ERROR_INVALID_ARG, "Unable to parse request: a string %s",
                   c == 0 ? "has a NUL character" : "is not UTF-8");
}

// Almost all characters are ASCII.
error *proto_check_text(slice bytes)
{
  for (size_t i = 0; i < bytes.size;) {
    const uint8_t c = (uint8_t)bytes.data[i];
    if (c > 0 && c < 0x80) {
      i++;
      continue;
    }
    size_t length = c == 0 ? 0 : text_utf8_length(bytes.data + i, bytes.size - i);
    if (length == 0)
      return refuse_text(c);
    i += length;
  }
  return NULL;
}

error *proto_text(slice bytes, arena *a, const char **text)
{
  RETURN_IF_ERROR(proto_check_text(bytes));
  const char *copy = arena_copy_text(a, bytes);
  if (copy == NULL)
    return error_no_memory(); // the text stays what it was: replies may name it
  *text = copy;
  return NULL;
}

error *proto_broken(void)
{
  return error_new(ERROR_INVALID_ARG,
                   "Unable to parse request: it is not a message in protobuf's wire format");
}

// ---- writing ----

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
  char bytes[PROTO_VARINT_BYTES];
  buffer_append(out, bytes, print_varint(bytes, value));
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

void proto_append_double(buffer *out, uint32_t number, double value)
{
  proto_append_tag(out, number, PROTO_I64);
  buffer_append(out, &value, sizeof(value));
}

void proto_append_bytes(buffer *out, uint32_t number, slice value)
{
  proto_append_tag(out, number, PROTO_BYTES);
  proto_append_varint(out, value.size);
  buffer_append_slice(out, value);
}

void proto_append_text(buffer *out, uint32_t number, const char *value)
{
  if (value[0] != '\0')
    proto_append_bytes(out, number, slice_of(value));
}

size_t proto_begin(buffer *out, uint32_t number)
{
  proto_append_tag(out, number, PROTO_BYTES);
  return out->size;
}

// The size stands before the content, and how long it is is known only now.
void proto_end(buffer *out, size_t begin)
{
  if (out->failed)
    return;
  char bytes[PROTO_VARINT_BYTES];
  size_t content = out->size - begin;
  size_t size = print_varint(bytes, content);
  if (buffer_reserve(out, size) == NULL)
    return;
  memmove(out->data + begin + size, out->data + begin, content);
  memcpy(out->data + begin, bytes, size);
  out->size += size;
}
