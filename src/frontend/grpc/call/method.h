// SPDX-License-Identifier: Apache-2.0
// A row of the table of methods (service/methods.c).
#ifndef NEREID_FRONTEND_GRPC_CALL_METHOD_H
#define NEREID_FRONTEND_GRPC_CALL_METHOD_H

#include "base/buffer.h"
#include "base/error.h"
#include "frontend/common/policy/access_policy.h"
#include "frontend/grpc/call/grpc_message.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

typedef struct call call;

typedef struct method {
  const char *path; // "/package.Service/Method"
  route_category category;
  // Called when the request message is complete; for a streaming method when the call begins.
  void (*handle)(call *c);
  bool streams;                   // any number of requests and replies
  message_begins *message_begins; // called for each request message, with the call; or NULL

  // --- For control methods (service/control_method.h)
  const ProtobufCMessageDescriptor *request;
  // Does what the request asks for, and appends the reply as JSON (nothing: an empty message), or
  // replies or fails the call itself.
  error *(*run)(call *c, const void *request, buffer *json);
  const ProtobufCMessageDescriptor *reply;
  const char *member; // of the reply, whose value the JSON is; NULL: the JSON is the whole reply
} method;

#endif
