// SPDX-License-Identifier: Apache-2.0
// The worker's answer to an execution: its responses are read, sent, and counted. See execution.h.
#include "instance/execution.h"

#include "backend_error.h"
#include "backend_log.h"
#include "base/clock.h"
#include "codec/protocol.h"
#include "codec/response_fill.h"
#include "process/worker_end.h"

#include <stdio.h>
#include <string.h>

#define REQUEST_IDS_BYTES 256 // in a log line

static TRITONSERVER_Error *decoupled_error(const execution *self, const wire_reader *reader,
                                           const wire_response *head)
{
  if (head->kind == RESPONSE_ERROR && !reader->bad)
    return backend_error(head->code, "%.*s", (int)head->text_length, head->text);
  return backend_error_internal(
      "Python model '%s' is using the decoupled mode and the execute function must return None.",
      worker_name(self->instance->worker));
}

// NULL unless the worker has set ANSWER_ON_DEVICE: this thread may be a loop.
static device_share *answer_devices(const execution *self)
{
  return (self->answer.flags & ANSWER_ON_DEVICE) == 0
             ? NULL
             : atomic_load_explicit(&self->link->devices, memory_order_acquire);
}

static void read_response(execution *self, uint32_t index, wire_reader *reader)
{
  open_request *open = self->open[index];
  wire_response head;
  wire_response_read(reader, &head);
  if (head.kind == RESPONSE_RESCHEDULED && !reader->bad) {
    if (open != NULL)
      open->goes_again = true;
    return;
  }
  self->facts[index].has_failed = head.kind == RESPONSE_FAILED && !reader->bad;
  if (self->facts[index].has_failed)
    return;
  const bool is_said = head.kind != RESPONSE_NONE || reader->bad;
  if (open != NULL && is_said && !self->instance->model->decoupled) {
    open_request_fill(self->instance, open, self->link->channel, answer_devices(self), reader,
                      &head);
    return;
  }
  response_skip(self->link->channel, reader, &head);
  if (open != NULL && is_said) // only an error, which ends the request
    open->error = decoupled_error(self, reader, &head);
}

// The times when `execute` began and ended, as the worker reports them, if they are possible; else
// the times that this side has seen. Until `execute` began, an execution sent behind others was
// queued.
static void take_times(execution *self, uint64_t begun_ns, uint64_t ended_ns)
{
  const bool is_known = begun_ns >= self->compute_start_ns && ended_ns >= begun_ns &&
                        ended_ns <= self->compute_end_ns;
  if (!is_known)
    return;
  if (self->is_behind) {
    self->exec_start_ns += begun_ns - self->compute_start_ns;
    self->compute_start_ns = begun_ns;
  }
  self->compute_end_ns = ended_ns;
  self->took_ns = ended_ns - begun_ns;
}

// Logs the batch's traceback, with as many request ids as fit into a line. Requests that the
// listener has answered are missing.
static void log_trace(const execution *self, const char *trace, size_t length)
{
  char ids[REQUEST_IDS_BYTES] = "";
  size_t used = 0;
  for (uint32_t i = 0; i < self->count && used < sizeof(ids) - 1; i++) {
    const char *id = "";
    if (self->open[i] == NULL && !self->instance->model->decoupled)
      continue;
    TRITONSERVER_ErrorDelete(TRITONBACKEND_RequestId(self->facts[i].request, &id));
    snprintf(ids + used, sizeof(ids) - used, "%s%s", used > 0 ? ", " : "", id);
    used += strlen(ids + used);
  }
  NEREID_LogSubject about = worker_log_subject(self->instance->worker);
  about.request_id = ids;
  BACKEND_LOG_ERROR_ABOUT(&about, "%.*s", (int)length, trace);
}

static TRITONSERVER_Error *read_responses(execution *self, wire_reader *reader)
{
  if (wire_get_u8(reader) == 0) {
    size_t length, trace_length;
    const char *reason = wire_get_text(reader, &length);
    const char *trace = wire_get_text(reader, &trace_length);
    if (trace_length > 0)
      log_trace(self, trace, trace_length);
    if (!reader->bad)
      return backend_error_internal("%.*s", (int)length, reason);
  }
  uint32_t count = wire_get_u32(reader);
  uint64_t begun_ns = wire_get_u64(reader);
  uint64_t ended_ns = wire_get_u64(reader);
  if (!reader->bad)
    take_times(self, begun_ns, ended_ns);
  if (!reader->bad && count == self->count)
    return NULL;
  return backend_error_internal("the Python worker answered %u requests, %u were given", count,
                                self->count);
}

// The worker is gone, and the listener may have visited the open requests before this one was put
// back.
static void fail_late(execution *self, uint64_t handle)
{
  open_request *open = request_table_begin(&self->instance->requests, handle);
  if (open == NULL)
    return;
  TRITONSERVER_Error *error = python_instance_explain(
      self->instance, worker_why_gone(self->instance->worker, self->link, true));
  open_request_abandon(self->instance, open, error);
  TRITONSERVER_ErrorDelete(error);
}

// The request's responses come later: statistics use the times known now. A decoupled model's
// request is released meanwhile, with its trace.
static void respond_later(execution *self, open_request *open)
{
  open->exec_start_ns = self->exec_start_ns;
  open->compute_start_ns = self->compute_start_ns;
  if (self->instance->model->decoupled)
    open->trace = NULL;
  open->is_answered = true;
  const uint64_t handle = open->handle;
  if (!open->is_forgotten) {
    request_table_end(&self->instance->requests, open);
    if (self->link->is_over)
      fail_late(self, handle);
    return;
  }
  open_request ended = request_table_close(&self->instance->requests, open);
  open_request_release(self->instance, &ended);
}

static void report(const execution *self)
{
  for (uint32_t i = 0; i < self->count; i++) {
    const open_request *open = self->open[i];
    if (self->instance->model->decoupled ||
        (open != NULL && (open->response != NULL || open->goes_again)))
      execution_report_one(self, i,
                           !self->facts[i].has_failed && (open == NULL || open->error == NULL));
  }
  if (self->batch_size > 0)
    backend_request_error_log(self->instance->server_instance, NULL,
                              TRITONBACKEND_ModelInstanceReportBatchStatistics(
                                  self->instance->server_instance, self->batch_size,
                                  self->exec_start_ns, self->compute_start_ns, self->compute_end_ns,
                                  clock_monotonic_ns()),
                              "report batch statistics");
}

// Responses that a decoupled model sent before are sent to the client; more may follow.
static void reschedule_decoupled(execution *self, uint32_t index)
{
  request_table *requests = &self->instance->requests;
  open_request *open = self->open[index];
  TRITONBACKEND_Request *request = self->facts[index].request;
  TRITONSERVER_Error *error =
      TRITONBACKEND_RequestRelease(request, TRITONSERVER_REQUEST_RELEASE_RESCHEDULE);
  if (error == NULL) {
    respond_later(self, open);
    return;
  }
  open_request ended = request_table_close(requests, open);
  open_request_fail(self->instance, &ended, error);
  TRITONSERVER_ErrorDelete(error);
  execution_release_one(self, index);
}

static void reschedule(execution *self, uint32_t index)
{
  if (self->instance->model->decoupled) {
    reschedule_decoupled(self, index);
    return;
  }
  open_request ended = request_table_close(&self->instance->requests, self->open[index]);
  open_request_reschedule(self->instance, &ended);
}

static void send_responses(execution *self)
{
  for (uint32_t i = 0; i < self->count; i++) {
    open_request *open = self->open[i];
    if (open != NULL && open->goes_again) {
      reschedule(self, i);
      continue;
    }
    if (open != NULL && (open->response != NULL || open->error != NULL)) {
      open_request ended = request_table_close(&self->instance->requests, open);
      open_request_end(self->instance, &ended);
    } else if (open != NULL) {
      respond_later(self, open);
    }
    if (self->instance->model->decoupled)
      execution_release_one(self, i);
  }
  execution_set_state(self, EXECUTION_ENDED);
}

static void take_answer(execution *self, const channel_message *message)
{
  control_part answer;
  execution_hold(self);
  TRITONSERVER_Error *error = control_part_copy(&answer, self->link, message)
                                  ? read_responses(self, &answer.reader)
                                  : backend_error_no_memory("a Python worker's answer");
  for (uint32_t i = 0; i < self->count && error == NULL; i++)
    read_response(self, i, &answer.reader);
  control_part_fini(&answer);
  if ((message->flags & ANSWER_RELEASED) != 0)
    worker_link_release(self->link, self->block);
  if (error != NULL) {
    execution_fail(self, error);
    return;
  }
  report(self); // first, so that a client that has its response finds it counted
  send_responses(self);
}

bool execution_await(execution *self, int64_t timeout_us)
{
  TRITONSERVER_Error *error = NULL;
  channel_look(self->link->channel, CHANNEL_ANSWERS, !self->is_crowded);
  if (!self->has_answer) {
    if (!worker_await(self->instance->worker, self->link, self->work_id, timeout_us, &self->answer,
                      &error))
      return false;
    self->compute_end_ns = clock_monotonic_ns();
  }
  self->has_answer = error == NULL && (self->answer.flags & ANSWER_ON_DEVICE) != 0;
  if (self->has_answer && timeout_us >= 0)
    return false;
  if (error != NULL) {
    execution_fail(self, error);
  } else {
    take_answer(self, &self->answer);
    channel_done(self->link->channel, CHANNEL_ANSWERS);
  }
  return true;
}
