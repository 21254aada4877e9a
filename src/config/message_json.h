// SPDX-License-Identifier: Apache-2.0
// The JSON form of any protobuf-c message, read by its descriptor. Any thread, no state.
#ifndef NEREID_CONFIG_MESSAGE_JSON_H
#define NEREID_CONFIG_MESSAGE_JSON_H

#include "base/error.h"
#include "base/slice.h"

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>

// Reads an object: proto names or camelCase; enums by name (in any case, '-' for '_') or number;
// numbers and booleans also in quotes; null as absent, in a list too. A single value is taken for a
// list, and nested lists are flattened. If a member is repeated, the last scalar counts; messages
// and lists are merged. The text is lenient JSON (config/json_source.h), of at most `max_values`
// values. Unknown members and repeated keys of a map are refused. The message is the caller's, to
// be freed with protobuf_c_message_free_unpacked. Errors are INVALID_ARG and name the place:
// "input[0].dims[1]: expected …". Fields of bytes cannot be read.
error *message_read_json(slice json, const ProtobufCMessageDescriptor *type, size_t max_values,
                         ProtobufCMessage **message);

#endif
