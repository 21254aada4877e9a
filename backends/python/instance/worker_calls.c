// Ends of requests, on any thread that took one out of the table, and the messages of
// CHANNEL_CALLS, on the listener's.
#include "instance/worker_calls.h"

#include "backend_batch.h"
#include "backend_error.h"
#include "backend_log.h"
#include "codec/protocol.h"
#include "codec/response_fill.h"
#include "instance/aside.h"

#include <stdio.h>
#include <string.h>

// ---- ends of requests

static void log_error_of(const worker_keeper *keeper, const open_request *request,
                         TRITONSERVER_Error *error_owned, const char *doing)
{
  backend_request_error_log(worker_keeper_instance(keeper), request->request, error_owned, doing);
}

static void report(worker_keeper *keeper, const open_request *request, bool success)
{
  uint64_t now = backend_now_ns();
  log_error_of(keeper, request,
               TRITONBACKEND_ModelInstanceReportStatistics(
                   worker_keeper_instance(keeper), request->request, success,
                   request->exec_start_ns, request->compute_start_ns, now, now),
               "report request statistics");
}

static void release(const worker_keeper *keeper, const open_request *request)
{
  if (request->factory != NULL)
    log_error_of(keeper, request, TRITONBACKEND_ResponseFactoryDelete(request->factory),
                 "delete a response factory");
  if (request->request != NULL)
    log_error_of(keeper, request,
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

static void send_response(const worker_keeper *keeper, const open_request *request,
                          TRITONBACKEND_Response *response, uint32_t flags,
                          TRITONSERVER_Error *error)
{
  log_error_of(keeper, request, TRITONBACKEND_ResponseSend(response, flags, error),
               "send a response");
}

TRITONSERVER_Error *worker_call_explain(const worker_keeper *keeper,
                                        TRITONSERVER_Error *error_owned)
{
  static const char start[] = "Failed to process the request(s) for model instance '";
  const char *text = TRITONSERVER_ErrorMessage(error_owned);
  if (strncmp(text, start, sizeof start - 1) == 0)
    return error_owned;
  TRITONSERVER_Error *error =
      backend_error(TRITONSERVER_ErrorCode(error_owned), "%s%s', message: %s", start,
                    worker_keeper_name(keeper), text);
  TRITONSERVER_ErrorDelete(error_owned);
  return error;
}

void worker_call_fail(worker_keeper *keeper, const open_request *request, TRITONSERVER_Error *error)
{
  TRITONBACKEND_Response *response;
  TRITONSERVER_Error *failure = new_response(request, &response);
  if (request->request != NULL)
    report(keeper, request, false);
  if (failure == NULL)
    send_response(keeper, request, response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, error);
  log_error_of(keeper, request, failure, "make an error response");
  release(keeper, request);
}

// ---- responses

typedef struct response_call {
  worker_keeper *keeper;
  const channel *channel;
  wire_reader *reader;
  wire_response head;
  bool final;
} response_call;

// The only response of a request of a model that is not decoupled.
static void answer_once(response_call *self, const open_request *request)
{
  const python_model *model = worker_keeper_model(self->keeper);
  TRITONBACKEND_Response *response;
  TRITONSERVER_Error *failure = new_response(request, &response);
  TRITONSERVER_Error *error = NULL;
  if (failure == NULL && self->head.kind == RESPONSE_NONE)
    error = backend_error(TRITONSERVER_ERROR_INTERNAL,
                          "model '%s' ended a request without a response", model->name);
  else if (failure == NULL)
    error = response_fill(response, &model->signature, self->channel, self->reader, &self->head);
  report(self->keeper, request, failure == NULL && error == NULL);
  if (failure == NULL)
    send_response(self->keeper, request, response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, error);
  log_error_of(self->keeper, request, failure, "make a response");
  TRITONSERVER_ErrorDelete(error);
  release(self->keeper, request);
}

// One of the responses of a decoupled model's request, or the word that there are no more.
static void answer_more(response_call *self, const open_request *request)
{
  uint32_t flags = self->final ? TRITONSERVER_RESPONSE_COMPLETE_FINAL : 0;
  TRITONBACKEND_Response *response;
  if (self->head.kind == RESPONSE_NONE) {
    if (self->final)
      log_error_of(self->keeper, request,
                   TRITONBACKEND_ResponseFactorySendFlags(request->factory, flags),
                   "send the end of a response");
    return;
  }
  TRITONSERVER_Error *failure = new_response(request, &response);
  if (failure == NULL) {
    TRITONSERVER_Error *error =
        response_fill(response, &worker_keeper_model(self->keeper)->signature, self->channel,
                      self->reader, &self->head);
    send_response(self->keeper, request, response, flags, error);
    TRITONSERVER_ErrorDelete(error);
  }
  log_error_of(self->keeper, request, failure, "make a response");
}

static void take_response(worker_keeper *keeper, worker_link *link, const channel_message *call,
                          wire_reader *reader)
{
  request_table *requests = worker_keeper_requests(keeper);
  response_call self = {.keeper = keeper,
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
      release(keeper, &request);
  } else if (self.head.kind == RESPONSE_NONE && !self.final) {
    request_table_end(requests, call->id, false);
  } else {
    request_table_end(requests, call->id, true);
    answer_once(&self, &request);
  }
}

// ---- other calls

static void take_log(const worker_keeper *keeper, const channel_message *call, wire_reader *reader)
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
  NEREID_LogSubject about = worker_keeper_log_subject(keeper);
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

static void take_is_cancelled(worker_keeper *keeper, worker_link *link, const channel_message *call)
{
  request_table *requests = worker_keeper_requests(keeper);
  channel_message reply = {.kind = call->kind, .id = call->id, .flags = REPLY_FINAL};
  open_request request;
  if (request_table_begin(requests, call->value, &request)) {
    reply.value = is_cancelled(&request);
    request_table_end(requests, call->value, false);
  }
  worker_link_reply(link, &reply);
}

static void take_with_control(worker_keeper *keeper, worker_link *link, const channel_message *call)
{
  control_part control;
  if (!control_part_copy(&control, link, call))
    control.reader.bad = true;
  if (call->kind == CALL_RESPONSE)
    take_response(keeper, link, call, &control.reader);
  else
    take_log(keeper, call, &control.reader);
  control_part_fini(&control);
}

void worker_call_take(worker_keeper *keeper, calls *of_model, worker_link *link,
                      const channel_message *call)
{
  switch (call->kind) {
  case CALL_RESPONSE:
  case CALL_LOG:
    take_with_control(keeper, link, call);
    break;
  case CALL_RELEASE:
    channel_release(worker_link_channel(link), call->value);
    break;
  case CALL_IS_CANCELLED:
    take_is_cancelled(keeper, link, call);
    break;
  case CALL_ANSWER:
    aside_take_answer(keeper, call);
    break;
  default:
    if (calls_handle(of_model, worker_keeper_requests(keeper), call))
      worker_keeper_note_wait(keeper, call->kind == CALL_INFER);
    else
      BACKEND_LOG_WARN("model '%s': a Python worker made an unknown call",
                       worker_keeper_model(keeper)->name);
  }
}
