// Ends of requests, on any thread that took one out of the table, and what a worker says of its
// requests on CHANNEL_CALLS, on the listener's.
#include "instance/response_call.h"

#include "backend_error.h"
#include "backend_log.h"
#include "base/clock.h"
#include "codec/protocol.h"
#include "codec/response_fill.h"

#include <stdio.h>
#include <string.h>

// ---- ends of requests

static void log_error_of(const python_instance *instance, const open_request *request,
                         TRITONSERVER_Error *error_owned, const char *doing)
{
  backend_request_error_log(instance->server_instance, request->request, error_owned, doing);
}

static void report(python_instance *instance, const open_request *request, bool success)
{
  uint64_t now = clock_monotonic_ns();
  log_error_of(instance, request,
               TRITONBACKEND_ModelInstanceReportStatistics(
                   instance->server_instance, request->request, success, request->exec_start_ns,
                   request->compute_start_ns, now, now),
               "report request statistics");
}

static void release(const python_instance *instance, const open_request *request)
{
  if (request->factory != NULL)
    log_error_of(instance, request, TRITONBACKEND_ResponseFactoryDelete(request->factory),
                 "delete a response factory");
  if (request->request != NULL)
    log_error_of(instance, request,
                 TRITONBACKEND_RequestRelease(request->request, TRITONSERVER_REQUEST_RELEASE_ALL),
                 "release a request");
}

static TRITONSERVER_Error *new_response(const open_request *request,
                                        TRITONBACKEND_Response **response)
{
  *response = NULL;
  return request->factory != NULL ? TRITONBACKEND_ResponseNewFromFactory(response, request->factory)
                                  : TRITONBACKEND_ResponseNew(response, request->request);
}

static void send_response(const python_instance *instance, const open_request *request,
                          TRITONBACKEND_Response *response, uint32_t flags,
                          TRITONSERVER_Error *error)
{
  log_error_of(instance, request, TRITONBACKEND_ResponseSend(response, flags, error),
               "send a response");
}

TRITONSERVER_Error *python_instance_explain(const python_instance *instance,
                                            TRITONSERVER_Error *error_owned)
{
  static const char start[] = "Failed to process the request(s) for model instance '";
  const char *text = TRITONSERVER_ErrorMessage(error_owned);
  if (strncmp(text, start, sizeof start - 1) == 0)
    return error_owned;
  TRITONSERVER_Error *error =
      backend_error(TRITONSERVER_ErrorCode(error_owned), "%s%s', message: %s", start,
                    worker_name(instance->worker), text);
  TRITONSERVER_ErrorDelete(error_owned);
  return error;
}

void open_request_fail(python_instance *instance, const open_request *request,
                       TRITONSERVER_Error *error)
{
  TRITONBACKEND_Response *response;
  TRITONSERVER_Error *failure = new_response(request, &response);
  if (request->request != NULL)
    report(instance, request, false);
  if (failure == NULL)
    send_response(instance, request, response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, error);
  log_error_of(instance, request, failure, "make an error response");
  release(instance, request);
}

// ---- responses

typedef struct response_call {
  python_instance *instance;
  const channel *channel;
  wire_reader *reader;
  wire_response head;
  bool final;
} response_call;

// The only response of a request of a model that is not decoupled.
static void answer_once(response_call *self, const open_request *request)
{
  const python_model *model = self->instance->model;
  TRITONBACKEND_Response *response;
  TRITONSERVER_Error *failure = new_response(request, &response);
  TRITONSERVER_Error *error = NULL;
  if (failure == NULL && self->head.kind == RESPONSE_NONE)
    error = backend_error(TRITONSERVER_ERROR_INTERNAL,
                          "model '%s' ended a request without a response", model->name);
  else if (failure == NULL)
    error = response_fill(response, &model->signature, self->channel, self->reader, &self->head);
  report(self->instance, request, failure == NULL && error == NULL);
  if (failure == NULL)
    send_response(self->instance, request, response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, error);
  log_error_of(self->instance, request, failure, "make a response");
  TRITONSERVER_ErrorDelete(error);
  release(self->instance, request);
}

// One of the responses of a decoupled model's request, or the word that there are no more.
static void answer_more(response_call *self, const open_request *request)
{
  uint32_t flags = self->final ? TRITONSERVER_RESPONSE_COMPLETE_FINAL : 0;
  TRITONBACKEND_Response *response;
  if (self->head.kind == RESPONSE_NONE) {
    if (self->final)
      log_error_of(self->instance, request,
                   TRITONBACKEND_ResponseFactorySendFlags(request->factory, flags),
                   "send the end of a response");
    return;
  }
  TRITONSERVER_Error *failure = new_response(request, &response);
  if (failure == NULL) {
    TRITONSERVER_Error *error = response_fill(response, &self->instance->model->signature,
                                              self->channel, self->reader, &self->head);
    send_response(self->instance, request, response, flags, error);
    TRITONSERVER_ErrorDelete(error);
  }
  log_error_of(self->instance, request, failure, "make a response");
}

static void take_response(python_instance *instance, worker_link *link, const channel_message *call,
                          wire_reader *reader)
{
  request_table *requests = &instance->requests;
  response_call self = {.instance = instance,
                        .channel = worker_link_channel(link),
                        .reader = reader,
                        .final = (call->flags & RESPONSE_FINAL) != 0};
  open_request request;
  if (call->size > 0) // nothing is RESPONSE_NONE
    wire_response_read(reader, &self.head);
  if (reader->bad)
    self.head.kind = RESPONSE_ERROR; // response_fill says so
  if (!request_table_begin(requests, call->id, &request))
    return; // it has ended; a model may say once more that it is final
  if (request.factory != NULL) {
    answer_more(&self, &request);
    request_table_end(requests, call->id, self.final);
    if (self.final)
      release(instance, &request);
  } else if (self.head.kind == RESPONSE_NONE && !self.final) {
    request_table_end(requests, call->id, false);
  } else {
    request_table_end(requests, call->id, true);
    answer_once(&self, &request);
  }
}

// ---- other calls

static void take_log(const python_instance *instance, const channel_message *call,
                     wire_reader *reader)
{
  static const struct {
    uint32_t flag;
    TRITONSERVER_LogLevel level;
  } levels[] = {{WORK_LOG_ERROR, TRITONSERVER_LOG_ERROR},
                {WORK_LOG_WARN, TRITONSERVER_LOG_WARN},
                {WORK_LOG_VERBOSE, TRITONSERVER_LOG_VERBOSE},
                {WORK_LOG_INFO, TRITONSERVER_LOG_INFO}};
  size_t length, file_length, ids_length, i = 0;
  const char *text = wire_get_text(reader, &length);
  const char *file = wire_get_text(reader, &file_length);
  uint32_t line = wire_get_u32(reader);
  bool of_requests = wire_get_u8(reader) != 0;
  const char *ids = wire_get_text(reader, &ids_length);
  char file_name[256], ids_copy[256];
  if (reader->bad)
    return;
  while (i < 3 && (call->flags & levels[i].flag) == 0)
    i++;
  snprintf(file_name, sizeof file_name, "%.*s", (int)file_length, file);
  snprintf(ids_copy, sizeof ids_copy, "%.*s", (int)ids_length, ids);
  NEREID_LogSubject about = worker_log_subject(instance->worker);
  about.request_id = of_requests ? ids_copy : NULL;
  about.keys_only = (call->flags & LOG_OF_WORKER) == 0;
  if (TRITONSERVER_LogIsEnabled(levels[i].level))
    backend_log(levels[i].level, file_name, (int)line, &about, "%.*s", (int)length, text);
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
  open_request request;
  if (request_table_begin(requests, call->value, &request)) {
    reply.value = is_cancelled(&request);
    request_table_end(requests, call->value, false);
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
