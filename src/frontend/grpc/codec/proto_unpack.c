// SPDX-License-Identifier: Apache-2.0
// Checks a message by its descriptor, then lets protobuf-c build it.
#include "frontend/grpc/codec/proto_unpack.h"

#include "frontend/grpc/codec/proto_wire.h"

#include <stddef.h>

static error *check(slice message, const ProtobufCMessageDescriptor *type, size_t *count);

static error *check_field(const proto_field *f, const ProtobufCMessageDescriptor *type,
                          size_t *count)
{
  const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(type, f->number);
  if (field == NULL || f->type != PROTO_BYTES)
    return NULL;
  if (field->type == PROTOBUF_C_TYPE_STRING)
    return proto_check_text(f->bytes);
  if (field->type == PROTOBUF_C_TYPE_MESSAGE)
    return check(f->bytes, field->descriptor, count);
  return NULL;
}

// Recursion is as deep as the schema.
static error *check(slice message, const ProtobufCMessageDescriptor *type, size_t *count)
{
  proto_reader r = proto_reader_of(message);
  proto_field f;
  while (proto_next(&r, &f)) {
    if ((*count)++ == PROTO_UNPACK_FIELDS_MAX)
      return error_new(ERROR_INVALID_ARG, "expected a message of at most %d fields",
                       PROTO_UNPACK_FIELDS_MAX);
    RETURN_IF_ERROR(check_field(&f, type, count));
  }
  return r.broken ? proto_broken() : NULL;
}

static void *allocate(void *arena_pointer, size_t size)
{
  return arena_allocate(arena_pointer, size);
}

static void release(void *arena_pointer, void *memory)
{
  (void)arena_pointer;
  (void)memory; // freed with the arena
}

error *proto_unpack(slice message, const ProtobufCMessageDescriptor *type, arena *a,
                    ProtobufCMessage **result)
{
  size_t count = 0;
  RETURN_IF_ERROR(check(message, type, &count));
  ProtobufCAllocator allocator = {.alloc = allocate, .free = release, .allocator_data = a};
  const uint8_t *data = (const uint8_t *)(message.size > 0 ? message.data : "");
  *result = protobuf_c_message_unpack(type, &allocator, message.size, data);
  return *result != NULL ? NULL : proto_broken();
}
