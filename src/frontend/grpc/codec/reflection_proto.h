// SPDX-License-Identifier: Apache-2.0
// Server reflection (https://github.com/grpc/grpc/blob/master/doc/server-reflection.md): a question
// about schemas and its reply. Pure; any thread.
#ifndef NEREID_FRONTEND_GRPC_CODEC_REFLECTION_PROTO_H
#define NEREID_FRONTEND_GRPC_CODEC_REFLECTION_PROTO_H

#include "base/buffer.h"
#include "base/slice.h"

#include <stdbool.h>

// Replies to a ServerReflectionRequest from the schemas that this listener speaks: lists services,
// gives files by name and by a symbol in them; anything else is an error within the reply. False
// when the message is none.
bool reflection_reply(slice request, buffer *reply);

#endif
