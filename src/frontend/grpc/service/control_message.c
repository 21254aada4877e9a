// Both ways are driven by protobuf-c's descriptors.
#include "frontend/grpc/service/control_message.h"

#include "base/buffer.h"
#include "config/message_json.h"
#include "frontend/common/observe/frontend_log.h"
#include "frontend/grpc/call/call.h"
#include "frontend/grpc/codec/proto_unpack.h"
#include "frontend/grpc/proto/grpc_service.pb-c.h"

#include <stdint.h>

void *control_request(call *c, const ProtobufCMessageDescriptor *type)
{
  ProtobufCMessage *message;
  return call_fail_if_error(c, proto_unpack(call_request(c), type, &c->arena, &message)) ? NULL
                                                                                         : message;
}

// The core's own answer has as many values as there are models.
static error *read_answer(slice json, const ProtobufCMessageDescriptor *type, const char *member,
                          ProtobufCMessage **reply)
{
  if (member == NULL)
    return message_read_json(json, type, SIZE_MAX, reply);
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  buffer_append_format(&text, "{\"%s\":", member);
  buffer_append_slice(&text, json);
  buffer_append_char(&text, '}');
  return text.failed ? error_no_memory()
                     : message_read_json(buffer_view(&text), type, SIZE_MAX, reply);
}

static void reply(call *c, slice json, const ProtobufCMessageDescriptor *type, const char *member)
{
  ProtobufCMessage *message;
  error *e = read_answer(json, type, member, &message);
  if (e != NULL) {
    call_fail(c, GRPC_INTERNAL, "%s", error_message(e)); // not the client's fault
    error_free(e);
    return;
  }
  call_reply_message(c, message);
  protobuf_c_message_free_unpacked(message, NULL);
}

void control_reply_text(call *c, const buffer *json, const ProtobufCMessageDescriptor *type,
                        const char *member)
{
  if (!json->failed || !call_fail_if_error(c, error_no_memory()))
    reply(c, buffer_view(json), type, member);
}

// The bytes are the same whatever its type.
void control_reply_empty(call *c, error *failure_owned)
{
  const Inference__RepositoryModelLoadResponse empty =
      INFERENCE__REPOSITORY_MODEL_LOAD_RESPONSE__INIT;
  if (!call_fail_if_error(c, failure_owned))
    call_reply_message(c, &empty.base);
}

void control_reply_json(call *c, TRITONSERVER_Message *answer_owned,
                        const ProtobufCMessageDescriptor *type, const char *member)
{
  const char *text;
  size_t size;
  if (!call_fail_if(c, TRITONSERVER_MessageSerializeToJson(answer_owned, &text, &size)))
    reply(c, (slice){text, size}, type, member);
  frontend_log_failure(NULL, "deleting an answer of the core",
                       TRITONSERVER_MessageDelete(answer_owned));
}
