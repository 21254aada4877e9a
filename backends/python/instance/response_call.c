// What a worker says of its requests on CHANNEL_CALLS. The listener's thread.
#include "instance/response_call.h"

#include "backend_error.h"
#include "backend_log.h"
#include "codec/protocol.h"
#include "instance/open_request.h"

#include <stdio.h>

// ---- responses

typedef struct response_call {
  const python_instance *instance;
  const channel *channel;
  wire_reader *reader;
  wire_response head;
  bool final;
} response_call;

// The only response of a request of a model that is not decoupled.
static void respond_once(response_call *self, open_request *request)
{
  if (self->head.kind == RESPONSE_NONE)
    request->error =
        backend_error(TRITONSERVER_ERROR_INTERNAL, "model '%s' ended a request without a response",
                      self->instance->model->name);
  else
    open_request_fill(self->instance, request, self->channel, self->reader, &self->head);
  if (request->response != NULL)
    open_request_report(self->instance, request, request->error == NULL);
  open_request_end(self->instance, request);
}

// One of the responses of a decoupled model's request, or the word that there are no more.
static void respond_more(response_call *self, open_request *request)
{
  const uint32_t flags = self->final ? TRITONSERVER_RESPONSE_COMPLETE_FINAL : 0;
  if (self->head.kind != RESPONSE_NONE) {
    open_request_fill(self->instance, request, self->channel, self->reader, &self->head);
    open_request_send(self->instance, request, flags);
  } else if (self->final) {
    open_request_log_error(self->instance, request,
                           TRITONBACKEND_ResponseFactorySendFlags(request->factory, flags),
                           "send the end of a response");
  }
}

static void take_response(python_instance *instance, worker_link *link, const channel_message *call,
                          wire_reader *reader)
{
  request_table *requests = &instance->requests;
  response_call self = {.instance = instance,
                        .channel = worker_link_channel(link),
                        .reader = reader,
                        .final = (call->flags & RESPONSE_FINAL) != 0};
  if (call->size > 0) // nothing is RESPONSE_NONE
    wire_response_read(reader, &self.head);
  if (reader->bad)
    self.head.kind = RESPONSE_ERROR; // response_fill says so
  open_request *request = request_table_begin(requests, call->id);
  if (request == NULL)
    return; // it has ended; a model may say once more that it is final
  const bool decoupled = request->factory != NULL;
  if (decoupled)
    respond_more(&self, request);
  if (!self.final && (decoupled || self.head.kind == RESPONSE_NONE)) {
    request_table_end(requests, request);
    return;
  }
  open_request ended = request_table_close(requests, request);
  if (decoupled)
    open_request_release(instance, &ended);
  else
    respond_once(&self, &ended);
}

// ---- other calls

static void take_log(const python_instance *instance, const channel_message *call,
                     wire_reader *reader)
{
  const TRITONSERVER_LogLevel level = (call->flags & WORK_LOG_ERROR) != 0  ? TRITONSERVER_LOG_ERROR
                                      : (call->flags & WORK_LOG_WARN) != 0 ? TRITONSERVER_LOG_WARN
                                      : (call->flags & WORK_LOG_VERBOSE) != 0
                                          ? TRITONSERVER_LOG_VERBOSE
                                          : TRITONSERVER_LOG_INFO;
  size_t length, file_length, ids_length;
  const char *text = wire_get_text(reader, &length);
  const char *file = wire_get_text(reader, &file_length);
  uint32_t line = wire_get_u32(reader);
  bool of_requests = wire_get_u8(reader) != 0;
  const char *ids = wire_get_text(reader, &ids_length);
  char file_name[256], ids_copy[256];
  if (reader->bad)
    return;
  snprintf(file_name, sizeof file_name, "%.*s", (int)file_length, file);
  snprintf(ids_copy, sizeof ids_copy, "%.*s", (int)ids_length, ids);
  NEREID_LogSubject about = worker_log_subject(instance->worker);
  about.request_id = of_requests ? ids_copy : NULL;
  about.keys_only = (call->flags & LOG_OF_WORKER) == 0;
  if (TRITONSERVER_LogIsEnabled(level))
    backend_log(level, file_name, (int)line, &about, "%.*s", (int)length, text);
}

static bool is_cancelled(const open_request *request)
{
  bool cancelled = false;
  TRITONSERVER_Error *error =
      request->factory != NULL
          ? TRITONBACKEND_ResponseFactoryIsCancelled(request->factory, &cancelled)
          : TRITONBACKEND_RequestIsCancelled(request->request, &cancelled);
  backend_error_log(error, "ask whether a request is cancelled");
  return cancelled;
}

static void take_is_cancelled(python_instance *instance, worker_link *link,
                              const channel_message *call)
{
  request_table *requests = &instance->requests;
  channel_message reply = {.kind = call->kind, .id = call->id, .flags = REPLY_FINAL};
  open_request *request = request_table_begin(requests, call->value);
  if (request != NULL) {
    reply.value = is_cancelled(request);
    request_table_end(requests, request);
  }
  worker_link_reply(link, &reply);
}

static void take_with_control(python_instance *instance, worker_link *link,
                              const channel_message *call)
{
  control_part control;
  if (!control_part_copy(&control, link, call))
    control.reader.bad = true;
  if (call->kind == CALL_RESPONSE)
    take_response(instance, link, call, &control.reader);
  else
    take_log(instance, call, &control.reader);
  control_part_fini(&control);
}

bool response_call_take(python_instance *instance, worker_link *link, const channel_message *call)
{
  switch (call->kind) {
  case CALL_RESPONSE:
  case CALL_LOG:
    take_with_control(instance, link, call);
    return true;
  case CALL_RELEASE:
    channel_release(worker_link_channel(link), call->value);
    return true;
  case CALL_IS_CANCELLED:
    take_is_cancelled(instance, link, call);
    return true;
  default:
    return false;
  }
}
