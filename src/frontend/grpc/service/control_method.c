// SPDX-License-Identifier: Apache-2.0
// Runs control methods; protobuf-c's descriptors convert requests and replies.
#include "frontend/grpc/service/control_method.h"

#include "config/message_json.h"
#include "frontend/grpc/call/call.h"
#include "frontend/grpc/codec/proto_unpack.h"
#include "frontend/grpc/codec/proto_wire.h"

static error *pack(slice json, const method *m, buffer *packed)
{
  ProtobufCMessage *message;
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  if (m->member != NULL) {
    buffer_append_format(&text, "{\"%s\":", m->member);
    buffer_append_slice(&text, json);
    buffer_append_char(&text, '}');
    json = buffer_view(&text);
  }
  if (text.failed)
    return error_no_memory();
  // No limit: the core's response has as many values as there are models.
  RETURN_IF_ERROR(message_read_json(json, m->reply, SIZE_MAX, &message));
  char *to = buffer_reserve(packed, protobuf_c_message_get_packed_size(message) + 1);
  if (to != NULL)
    packed->size = protobuf_c_message_pack(message, (uint8_t *)to);
  protobuf_c_message_free_unpacked(message, NULL);
  return NULL;
}

static void reply(call *c, const buffer *json)
{
  AUTO_BUFFER buffer packed = BUFFER_EMPTY;
  if (json->failed) {
    call_fail_if_error(c, error_no_memory());
    return;
  }
  error *e = json->size == 0 ? NULL : pack(buffer_view(json), c->method, &packed);
  if (e == NULL)
    call_reply_packed(c, &packed);
  else
    call_fail(c, GRPC_INTERNAL, "%s", error_message(e)); // not the client's fault
  error_free(e);
}

void control_method_run(call *c)
{
  const method *m = c->method;
  ProtobufCMessage *request = NULL;
  AUTO_BUFFER buffer json = BUFFER_EMPTY;
  if (m->request->n_fields > 0 &&
      call_fail_if_error(c, proto_unpack(call_request(c), m->request, &c->arena, &request)))
    return;
  if (call_fail_if_error(c, m->run(c, request, &json)) || c->status != GRPC_UNDECIDED)
    return;
  reply(c, &json);
}

void control_method_probe(call *c)
{
  call_run_job(c, JOB_PROBES, control_method_run, NULL);
}

void control_method_block(call *c)
{
  call_run_job(c, JOB_BLOCKS, control_method_run, NULL);
}

void control_method_ask_driver(call *c)
{
  call_run_job(c, JOB_DRIVER, control_method_run, NULL);
}

void control_reply_number(call *c, uint64_t value)
{
  AUTO_BUFFER buffer packed = BUFFER_EMPTY;
  if (value != 0)
    proto_append_integer(&packed, 1, value);
  call_reply_packed(c, &packed);
}
