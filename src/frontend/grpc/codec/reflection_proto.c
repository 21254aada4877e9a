// SPDX-License-Identifier: Apache-2.0
// Finds descriptors. Field numbers are those of descriptor.proto and of the reflection service,
// whose versions v1alpha and v1 have the same.
#include "frontend/grpc/codec/reflection_proto.h"

#include "frontend/grpc/codec/proto_wire.h"
#include "frontend/grpc/codec/status.h"

// The listener's schemas as a serialized FileDescriptorSet from protoc, embedded by the build.
__asm__(".pushsection .rodata\n"
        ".hidden grpc_descriptor_bytes\n"
        ".globl grpc_descriptor_bytes\n"
        "grpc_descriptor_bytes:\n"
        ".incbin \"" DESCRIPTOR_FILE "\"\n"
        ".hidden grpc_descriptor_end\n"
        ".globl grpc_descriptor_end\n"
        "grpc_descriptor_end:\n"
        ".byte 0\n"
        ".popsection\n");

extern const char grpc_descriptor_bytes[] __attribute__((visibility("hidden")));
extern const char grpc_descriptor_end[] __attribute__((visibility("hidden")));

// FileDescriptorSet, FileDescriptorProto
#define SET_FILE     1
#define FILE_NAME    1
#define FILE_PACKAGE 2
#define FILE_MESSAGE 4
#define FILE_ENUM    5
#define FILE_SERVICE 6
#define NAME         1 // of messages, enums and services

// ServerReflectionRequest and -Response
#define ASK_HOST         1
#define ASK_FILE         3
#define ASK_SYMBOL       4
#define ASK_SERVICES     7
#define REPLY_HOST       1
#define REPLY_REQUEST    2
#define REPLY_FILES      4
#define REPLY_SERVICES   6
#define REPLY_ERROR      7
#define FILES_FILE       1
#define SERVICES_SERVICE 1
#define SERVICE_NAME     1
#define ERROR_CODE       1
#define ERROR_MESSAGE    2

static slice descriptors(void)
{
  return (slice){grpc_descriptor_bytes, (size_t)(grpc_descriptor_end - grpc_descriptor_bytes)};
}

// The first field of that number in a message; empty if there is none.
static slice field_of(slice message, uint32_t number)
{
  proto_reader r = proto_reader_of(message);
  proto_field field;
  while (proto_next(&r, &field))
    if (field.number == number && field.type == PROTO_BYTES)
      return field.bytes;
  return (slice){"", 0};
}

// Is the symbol "<package>.<name>", or something in it after a '.'?
static bool is_symbol(slice symbol, slice package, slice name)
{
  if (package.size > 0) {
    if (symbol.size <= package.size || memcmp(symbol.data, package.data, package.size) != 0 ||
        symbol.data[package.size] != '.')
      return false;
    symbol = (slice){symbol.data + package.size + 1, symbol.size - package.size - 1};
  }
  return symbol.size >= name.size && memcmp(symbol.data, name.data, name.size) == 0 &&
         (symbol.size == name.size || symbol.data[name.size] == '.');
}

static bool has_symbol(slice file, slice symbol)
{
  slice package = field_of(file, FILE_PACKAGE);
  proto_reader r = proto_reader_of(file);
  proto_field field;
  while (proto_next(&r, &field))
    if ((field.number == FILE_MESSAGE || field.number == FILE_ENUM ||
         field.number == FILE_SERVICE) &&
        is_symbol(symbol, package, field_of(field.bytes, NAME)))
      return true;
  return false;
}

static bool has_name(slice file, slice name)
{
  return slice_equal(field_of(file, FILE_NAME), name);
}

static void append_error(buffer *reply, slice what)
{
  size_t error = proto_begin(reply, REPLY_ERROR);
  proto_append_integer(reply, ERROR_CODE, GRPC_NOT_FOUND);
  size_t text = proto_begin(reply, ERROR_MESSAGE);
  buffer_append_text(reply, "not found: ");
  buffer_append(reply, what.data, what.size < 256 ? what.size : 256);
  proto_end(reply, text);
  proto_end(reply, error);
}

static void append_file(slice what, bool (*is_it)(slice, slice), buffer *reply)
{
  proto_reader r = proto_reader_of(descriptors());
  proto_field file;
  while (proto_next(&r, &file)) {
    if (file.number != SET_FILE || !is_it(file.bytes, what))
      continue;
    size_t files = proto_begin(reply, REPLY_FILES);
    proto_append_bytes(reply, FILES_FILE, file.bytes);
    proto_end(reply, files);
    return;
  }
  append_error(reply, what);
}

static void append_services_of(slice file, buffer *reply)
{
  slice package = field_of(file, FILE_PACKAGE);
  proto_reader r = proto_reader_of(file);
  proto_field field;
  while (proto_next(&r, &field)) {
    if (field.number != FILE_SERVICE)
      continue;
    size_t service = proto_begin(reply, SERVICES_SERVICE);
    size_t name = proto_begin(reply, SERVICE_NAME);
    buffer_append_slice(reply, package);
    buffer_append_char(reply, '.');
    buffer_append_slice(reply, field_of(field.bytes, NAME));
    proto_end(reply, name);
    proto_end(reply, service);
  }
}

static void append_services(buffer *reply)
{
  size_t services = proto_begin(reply, REPLY_SERVICES);
  proto_reader r = proto_reader_of(descriptors());
  proto_field file;
  while (proto_next(&r, &file))
    if (file.number == SET_FILE)
      append_services_of(file.bytes, reply);
  proto_end(reply, services);
}

bool reflection_reply(slice request, buffer *reply)
{
  proto_field field, asked = {0};
  slice host = {"", 0};
  proto_reader r = proto_reader_of(request);
  while (proto_next(&r, &field)) {
    if (field.number == ASK_HOST && field.type == PROTO_BYTES)
      host = field.bytes;
    else if (field.number >= ASK_FILE && field.number <= ASK_SERVICES && field.type == PROTO_BYTES)
      asked = field;
  }
  if (r.broken)
    return false;
  proto_append_bytes(reply, REPLY_HOST, host);
  proto_append_bytes(reply, REPLY_REQUEST, request);
  if (asked.number == ASK_SERVICES)
    append_services(reply);
  else if (asked.number == ASK_FILE)
    append_file(asked.bytes, has_name, reply);
  else if (asked.number == ASK_SYMBOL)
    append_file(asked.bytes, has_symbol, reply);
  else
    append_error(reply, asked.bytes); // extensions, of which there are none
  return true;
}
