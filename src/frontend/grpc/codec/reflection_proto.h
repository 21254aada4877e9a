// SPDX-License-Identifier: Apache-2.0
// Server reflection (https://github.com/grpc/grpc/blob/master/doc/server-reflection.md): answers
// questions about schemas. Pure; any thread.
#ifndef NEREID_FRONTEND_GRPC_CODEC_REFLECTION_PROTO_H
#define NEREID_FRONTEND_GRPC_CODEC_REFLECTION_PROTO_H

#include "base/buffer.h"
#include "base/slice.h"

#include <stdbool.h>

// Answers a ServerReflectionRequest from the schemas of this listener: lists services, gives files
// by name or by a symbol in them; the answer to anything else is an error in the reply. False for a
// malformed message.
bool reflection_reply(slice request, buffer *reply);

#endif
