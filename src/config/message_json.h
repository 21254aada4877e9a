// SPDX-License-Identifier: Apache-2.0
// The JSON form of any protobuf-c message, read by its descriptor. Any thread, no state.
#ifndef NEREID_CONFIG_MESSAGE_JSON_H
#define NEREID_CONFIG_MESSAGE_JSON_H

#include "base/error.h"
#include "base/slice.h"

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>

// Reads an object: proto names or camelCase; enums by name (in any case, '-' for '_') or number;
// numbers and truths as such or in quotes; null as absent, in a list too. A value or an object is
// taken where a list stands, and lists in lists are one. What is there twice comes together: the
// last of scalars counts, messages and lists are united. The text is lenient JSON
// (config/json_source.h), of at most `max_values` values. Unknown members are refused, and a name
// that a map has twice. The message is the caller's, to be freed with
// protobuf_c_message_free_unpacked. Errors are INVALID_ARG and name the place: "input[0].dims[1]:
// expected …". Fields of bytes cannot be read.
error *message_read_json(slice json, const ProtobufCMessageDescriptor *type, size_t max_values,
                         ProtobufCMessage **message);

#endif
