// Messages of control calls, between the wire and the core. The thread that has the call.
#ifndef NEREID_FRONTEND_GRPC_SERVICE_CONTROL_MESSAGE_H
#define NEREID_FRONTEND_GRPC_SERVICE_CONTROL_MESSAGE_H

#include "base/buffer.h"
#include "base/error.h"
#include "triton/core/tritonserver.h"

#include <protobuf-c/protobuf-c.h>

typedef struct call call;

// The request message, in the call's arena; NULL when it cannot be read: the call has failed.
void *control_request(call *c, const ProtobufCMessageDescriptor *type);

// Replies with what the core answered in JSON, as a message of that type: the members are its
// fields. With `member`, the response is the value of that one field.
void control_reply_json(call *c, TRITONSERVER_Message *response_owned,
                        const ProtobufCMessageDescriptor *type, const char *member);

// The same with a text of ours.
void control_reply_text(call *c, const buffer *json, const ProtobufCMessageDescriptor *type,
                        const char *member);

// Replies with an empty message, or fails the call; the error is released.
void control_reply_empty(call *c, error *failure_owned);

#endif
