// SPDX-License-Identifier: Apache-2.0
// The JSON form of any protobuf-c message, read by its descriptor. Any thread, no state.
#ifndef NEREID_CONFIG_MESSAGE_JSON_H
#define NEREID_CONFIG_MESSAGE_JSON_H

#include "base/error.h"
#include "base/slice.h"

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>

// Reads an object: proto names or camelCase, enums by name (any case) or number, 64-bit numbers as
// numbers or strings, null as absent; unknown and repeated members are refused, and so is a text of
// more than `max_values` values. The message is the caller's, to be freed with
// protobuf_c_message_free_unpacked. Errors are INVALID_ARG and name the place: "input[0].dims[1]:
// expected …". Fields of bytes cannot be read.
error *message_read_json(slice json, const ProtobufCMessageDescriptor *type, size_t max_values,
                         ProtobufCMessage **message);

#endif
