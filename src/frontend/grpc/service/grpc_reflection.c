// SPDX-License-Identifier: Apache-2.0
// Server reflection: tools such as grpcurl ask for services and messages.
#include "frontend/grpc/call/call.h"
#include "frontend/grpc/codec/reflection_proto.h"
#include "frontend/grpc/service/handlers.h"

static void take_message(call *c, grpc_message *message_owned)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  bool understood = reflection_reply((slice){message_owned->data, message_owned->size}, &text);
  grpc_message_free(message_owned);
  if (understood)
    call_queue_packed(c, &text);
  else
    call_end_early(c, GRPC_INVALID_ARGUMENT, "the message is no ServerReflectionRequest");
}

static void half_close(call *c)
{
  c->status = GRPC_OK; // every question has been answered
}

void grpc_handle_reflection(call *c)
{
  c->take_message = take_message;
  c->half_close = half_close;
}
