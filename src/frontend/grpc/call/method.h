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
  // Called when the request message is complete; of a streaming method when the call begins.
  void (*handle)(call *c);
  bool streams;                   // any number of requests and replies
  message_begins *message_begins; // of each request message, with the call; NULL: nobody is told

  // Of control methods (service/control_method.h).
  const ProtobufCMessageDescriptor *request;
  // Does what the request asks for, and appends the reply as JSON: nothing is an empty message. Or
  // replies, or fails the call, itself.
  error *(*run)(call *c, const void *request, buffer *json);
  const ProtobufCMessageDescriptor *reply;
  const char *member; // of the reply: the JSON is its value; NULL: it is the reply
} method;

#endif
