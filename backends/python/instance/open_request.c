// SPDX-License-Identifier: Apache-2.0
// The outcome of one request at the server, and a worker's calls about its requests on
// CHANNEL_CALLS.
#include "instance/open_request.h"

#include "backend_error.h"
#include "backend_log.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "codec/protocol.h"
#include "codec/response_fill.h"

#include <stdio.h>
#include <string.h>

TRITONSERVER_Error *python_instance_explain(const python_instance *instance,
                                            TRITONSERVER_Error *error_owned)
{
  static const char start[] = "Failed to process the request(s) for model instance '";
  const char *text = TRITONSERVER_ErrorMessage(error_owned);
  if (strncmp(text, start, sizeof(start) - 1) == 0)
    return error_owned;
  TRITONSERVER_Error *error =
      backend_error(TRITONSERVER_ErrorCode(error_owned), "%s%s', message: %s", start,
                    worker_name(instance->worker), text);
  TRITONSERVER_ErrorDelete(error_owned);
  return error;
}

static void open_request_log_error(const python_instance *instance, const open_request *self,
                                   TRITONSERVER_Error *error_owned, const char *doing)
{
  backend_request_error_log(instance->server_instance, self->request, error_owned, doing);
}

#define MAX_REASON 200 // bytes of a worker's text about a device

static TRITONSERVER_Error *make_response(open_request *self)
{
  TRITONSERVER_Error *error =
      self->factory != NULL ? TRITONBACKEND_ResponseNewFromFactory(&self->response, self->factory)
                            : TRITONBACKEND_ResponseNew(&self->response, self->request);
  if (error != NULL)
    self->response = NULL;
  return error;
}

void open_request_fill(const python_instance *instance, open_request *self, const channel *channel,
                       device_share *devices, wire_reader *reader, const wire_response *head)
{
  self->error = make_response(self);
  if (self->error != NULL)
    response_skip(channel, reader, head);
  else
    self->error = response_fill(self->response, self->request, &instance->model->signature, channel,
                                devices, reader, head);
}

void open_request_report(const python_instance *instance, const open_request *self, bool success)
{
  const uint64_t now = clock_monotonic_ns();
  const uint64_t computed = self->compute_end_ns == 0 ? now : self->compute_end_ns;
  open_request_log_error(instance, self,
                         TRITONBACKEND_ModelInstanceReportStatistics(
                             instance->server_instance, self->request, success, self->exec_start_ns,
                             self->compute_start_ns, computed, now),
                         "report request statistics");
}

void open_request_release(const python_instance *instance, const open_request *self)
{
  if (self->factory != NULL)
    open_request_log_error(instance, self, TRITONBACKEND_ResponseFactoryDelete(self->factory),
                           "delete a response factory");
  if (self->request != NULL)
    open_request_log_error(
        instance, self,
        TRITONBACKEND_RequestRelease(self->request, TRITONSERVER_REQUEST_RELEASE_ALL),
        "release a request");
}

// Sends `response`, and `error` with it.
static void open_request_send(const python_instance *instance, open_request *self, uint32_t flags)
{
  if (self->response == NULL) {
    open_request_log_error(instance, self, self->error, "make a response");
  } else {
    open_request_log_error(instance, self,
                           TRITONBACKEND_ResponseSend(self->response, flags, self->error),
                           "send a response");
    TRITONSERVER_ErrorDelete(self->error);
  }
  self->response = NULL;
  self->error = NULL;
}

void open_request_end(const python_instance *instance, open_request *self)
{
  if (self->response == NULL) {
    TRITONSERVER_Error *error = self->error;
    open_request_fail(instance, self, error);
    TRITONSERVER_ErrorDelete(error);
    return;
  }
  open_request_send(instance, self, TRITONSERVER_RESPONSE_COMPLETE_FINAL);
  open_request_release(instance, self);
}

void open_request_fail(const python_instance *instance, open_request *self,
                       TRITONSERVER_Error *error)
{
  TRITONSERVER_Error *failure = make_response(self);
  self->compute_end_ns = 0;
  if (self->request != NULL)
    open_request_report(instance, self, false);
  if (failure == NULL)
    open_request_log_error(
        instance, self,
        TRITONBACKEND_ResponseSend(self->response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, error),
        "send a response");
  open_request_log_error(instance, self, failure, "make an error response");
  open_request_release(instance, self);
}

void open_request_abandon(python_instance *instance, open_request *self, TRITONSERVER_Error *error)
{
  open_request ended = request_table_close(&instance->requests, self);
  if (ended.goes_again)
    open_request_release(instance, &ended);
  else
    open_request_fail(instance, &ended, error);
}

void open_request_reschedule(const python_instance *instance, open_request *self)
{
  TRITONSERVER_Error *error =
      TRITONBACKEND_RequestRelease(self->request, TRITONSERVER_REQUEST_RELEASE_RESCHEDULE);
  if (error != NULL)
    open_request_fail(instance, self, error);
  TRITONSERVER_ErrorDelete(error);
}

// ---- a worker's calls: responses

typedef struct response_call {
  const python_instance *instance;
  const channel *channel;
  device_share *devices;
  wire_reader *reader;
  wire_response head;
  bool final;
} response_call;

// The only response of a request to a model that is not decoupled.
static void respond_once(response_call *self, open_request *request)
{
  if (self->head.kind == RESPONSE_NONE)
    request->error = backend_error_internal("model '%s' ended a request without a response",
                                            self->instance->model->name);
  else
    open_request_fill(self->instance, request, self->channel, self->devices, self->reader,
                      &self->head);
  if (request->response != NULL)
    open_request_report(self->instance, request, request->error == NULL);
  open_request_end(self->instance, request);
}

// A response of a decoupled model's request, or the message that no more follow.
static void respond_more(response_call *self, open_request *request)
{
  const uint32_t flags = self->final ? TRITONSERVER_RESPONSE_COMPLETE_FINAL : 0;
  if (self->head.kind != RESPONSE_NONE) {
    open_request_fill(self->instance, request, self->channel, self->devices, self->reader,
                      &self->head);
    open_request_send(self->instance, request, flags);
  } else if (self->final) {
    open_request_log_error(self->instance, request,
                           TRITONBACKEND_ResponseFactorySendFlags(request->factory, flags),
                           "send the end of a response");
  }
}

// For a request to be rescheduled. `again`: reschedule it now; else: no more responses come with
// the old handle.
static void take_rescheduled(python_instance *instance, open_request *request, bool again)
{
  request_table *requests = &instance->requests;
  const bool decoupled = request->factory != NULL;
  request->is_forgotten = decoupled && !again;
  if (again ? decoupled : !decoupled || !request->is_answered) {
    request_table_end(requests, request);
    return;
  }
  open_request ended = request_table_close(requests, request);
  if (again) {
    open_request_report(instance, &ended, true);
    open_request_reschedule(instance, &ended);
  } else {
    open_request_release(instance, &ended);
  }
}

static void take_response(python_instance *instance, worker_link *link, const channel_message *call,
                          wire_reader *reader)
{
  request_table *requests = &instance->requests;
  response_call self = {.instance = instance,
                        .channel = link->channel,
                        .devices = atomic_load_explicit(&link->devices, memory_order_acquire),
                        .reader = reader,
                        .final = (call->flags & RESPONSE_FINAL) != 0};
  if (call->size > 0) // an empty control part is RESPONSE_NONE
    wire_response_read(reader, &self.head);
  reader->bad = reader->bad || self.head.kind == RESPONSE_RESCHEDULED ||
                self.head.kind == RESPONSE_FAILED; // invalid here
  if (reader->bad)
    self.head.kind = RESPONSE_ERROR; // response_fill reports it
  open_request *request = request_table_begin(requests, call->id);
  if (request == NULL)
    return; // it has ended; a model may send the final flag twice
  if ((call->flags & (RESPONSE_FORGOTTEN | RESPONSE_AGAIN)) != 0) {
    take_rescheduled(instance, request, (call->flags & RESPONSE_AGAIN) != 0);
    return;
  }
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

static void take_log(python_instance *instance, worker_link *link, const channel_message *call,
                     wire_reader *reader)
{
  (void)link;
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
  snprintf(file_name, sizeof(file_name), "%.*s", (int)file_length, file);
  snprintf(ids_copy, sizeof(ids_copy), "%.*s", (int)ids_length, ids);
  NEREID_LogSubject about = worker_log_subject(instance->worker);
  about.request_id = of_requests ? ids_copy : NULL;
  about.keys_only = (call->flags & LOG_OF_WORKER) == 0;
  if (TRITONSERVER_LogIsEnabled(level))
    backend_log(level, file_name, (int)line, &about, "%.*s", (int)length, text);
}

static void take_is_cancelled(python_instance *instance, worker_link *link,
                              const channel_message *call)
{
  open_request *request = request_table_begin(&instance->requests, call->value);
  bool cancelled = false;
  if (request != NULL) {
    backend_error_log(request->factory != NULL
                          ? TRITONBACKEND_ResponseFactoryIsCancelled(request->factory, &cancelled)
                          : TRITONBACKEND_RequestIsCancelled(request->request, &cancelled),
                      "ask whether a request is cancelled");
    request_table_end(&instance->requests, request);
  }
  worker_link_reply(
      link, &(channel_message){
                .kind = call->kind, .id = call->id, .flags = REPLY_FINAL, .value = cancelled});
}

// May take milliseconds, while the driver makes memory.
static void take_device_call(const python_instance *instance, worker_link *link,
                             const channel_message *call)
{
  device_share *devices = worker_link_devices(link);
  control_part control;
  size_t length;
  if (devices == NULL) {
    channel_close(link->channel); // the worker would wait for the answer for ever
    return;
  }
  if (call->kind == CALL_DEVICE_ROOM) {
    device_share_grant(devices, worker_name(instance->worker), (int)call->flags, call->value);
    return;
  }
  control_part_copy(&control, link, call);
  const char *text = wire_get_text(&control.reader, &length);
  AUTO_FREE char *why =
      control.reader.bad ? NULL : strndup(text, length < MAX_REASON ? length : MAX_REASON);
  device_share_refuse(devices, (int)call->flags, why == NULL ? "its worker cannot map it" : why);
  control_part_fini(&control);
}

bool open_request_take_call(python_instance *instance, worker_link *link,
                            const channel_message *call)
{
  control_part control;
  switch (call->kind) {
  case CALL_RESPONSE:
  case CALL_LOG:
    control_part_copy(&control, link, call);
    (call->kind == CALL_RESPONSE ? take_response : take_log)(instance, link, call, &control.reader);
    control_part_fini(&control);
    return true;
  case CALL_RELEASE:
    worker_link_release(link, call->value);
    return true;
  case CALL_DEVICE_ROOM:
  case CALL_DEVICE_UNMAPPED:
    take_device_call(instance, link, call);
    return true;
  case CALL_IS_CANCELLED:
    take_is_cancelled(instance, link, call);
    return true;
  default:
    return false;
  }
}
