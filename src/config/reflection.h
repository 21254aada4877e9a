// SPDX-License-Identifier: Apache-2.0
// Generic access to protobuf-c messages through their descriptors, shared by the text and JSON
// readers and printers. Private to src/config. Messages come from malloc, so that
// protobuf_c_message_free_unpacked releases them. Recursion is limited by the depth of the schema.
#ifndef NEREID_CONFIG_REFLECTION_H
#define NEREID_CONFIG_REFLECTION_H

#include "base/slice.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef const ProtobufCFieldDescriptor *field_ref;

#define REFLECTION_MAX_FIELDS 64 // no message of the schema has more; asserted where used

// One scalar of any type on its way into or out of a field.
typedef union scalar {
  int64_t integer;           // INT32, INT64, ENUM, BOOL
  uint64_t unsigned_integer; // UINT32, UINT64
  double real;               // FLOAT, DOUBLE
  char *text;                // STRING, owned until reflection_put takes it
} scalar;

// An empty message, or NULL when memory is short.
ProtobufCMessage *reflection_new(const ProtobufCMessageDescriptor *descriptor);

// The field of that proto name, or NULL.
field_ref reflection_field(const ProtobufCMessageDescriptor *descriptor, slice name);

// The fields in the order in which the .proto declares them; protobuf-c keeps them by number.
// Returns how many.
size_t reflection_declared_fields(const ProtobufCMessageDescriptor *descriptor,
                                  field_ref fields[REFLECTION_MAX_FIELDS]);

bool reflection_is_map(field_ref field); // a repeated message of key and value
bool reflection_is_oneof(field_ref field);
const ProtobufCEnumDescriptor *reflection_enum_type(field_ref field); // ENUM only

// The member of the field's oneof that is set in `message`, or NULL.
field_ref reflection_oneof_member(const ProtobufCMessage *message, field_ref field);

// The name of the message's only oneof.
const char *reflection_oneof_name(const ProtobufCMessage *message);

// Whether proto3 counts the (singular) field as present: a set message, a oneof's set member, a
// scalar that is not zero.
bool reflection_has(const ProtobufCMessage *message, field_ref field);

// Number of values: the size of a repeated field, else 1 or 0 by reflection_has.
size_t reflection_count(const ProtobufCMessage *message, field_ref field);

// The value at `index` (0 for a singular field). A string's text is borrowed, never NULL.
scalar reflection_get(const ProtobufCMessage *message, field_ref field, size_t index);
ProtobufCMessage *reflection_get_message(const ProtobufCMessage *message, field_ref field,
                                         size_t index);

// Sets a singular field or appends to a repeated one. A string moves into the message (on failure
// it is freed). A former value is released. False when memory is short.
bool reflection_put(ProtobufCMessage *message, field_ref field, scalar value_owned);
// The same with a new empty message, which stays inside `message`; NULL when memory is short.
ProtobufCMessage *reflection_put_message(ProtobufCMessage *message, field_ref field);

// Normalises all maps below `message`: of entries with equal keys the last stays, at the place of
// the first, and every entry gets a value. False when memory is short.
bool reflection_finish_maps(ProtobufCMessage *message);

// The name most like `name` among the descriptor's fields or values, or NULL when none is close.
const char *reflection_suggest_field(const ProtobufCMessageDescriptor *descriptor, slice name);
const char *reflection_suggest_value(const ProtobufCEnumDescriptor *descriptor, slice name);

#endif
