// The worker's answer to an execution: its responses are read, sent, and counted. The instance's
// thread, or a loop of the server.
#include "instance/execution.h"
#include "instance/open_request.h"

#include "backend_error.h"
#include "backend_log.h"
#include "base/clock.h"
#include "codec/protocol.h"
#include "codec/response_fill.h"

#include <stdio.h>
#include <string.h>

#define REQUEST_IDS_BYTES 256 // in a line of the log

static TRITONSERVER_Error *decoupled_error(const execution *self, const wire_reader *reader,
                                           const wire_response *head)
{
  if (head->kind == RESPONSE_ERROR && !reader->bad)
    return backend_error(head->code, "%.*s", (int)head->text_length, head->text);
  return backend_error(
      TRITONSERVER_ERROR_INTERNAL,
      "Python model '%s' is using the decoupled mode and the execute function must return None.",
      worker_name(self->instance->worker));
}

static void read_response(execution *self, uint32_t index, wire_reader *reader)
{
  const channel *channel = worker_link_channel(self->link);
  open_request *open = self->open[index];
  wire_response head;
  wire_response_read(reader, &head);
  const bool is_said = head.kind != RESPONSE_NONE || reader->bad;
  if (open != NULL && is_said && !self->instance->model->decoupled) {
    open_request_fill(self->instance, open, channel, reader, &head);
    return;
  }
  response_skip(channel, reader, &head);
  if (open != NULL && is_said) // only an error, which ends the request
    open->error = decoupled_error(self, reader, &head);
}

// When `execute` began and ended, by the worker's word, as far as it is possible. One that was sent
// behind others was queued until then. Without a word it is what this side has seen.
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

// Of the whole batch; of its requests as many ids as a line takes. Those that the listener has
// answered are gone.
static void log_trace(const execution *self, const char *trace, size_t length)
{
  char ids[REQUEST_IDS_BYTES] = "";
  size_t used = 0;
  for (uint32_t i = 0; i < self->count && used < sizeof ids - 1; i++) {
    const char *id = "";
    if (self->open[i] == NULL && !self->instance->model->decoupled)
      continue;
    TRITONSERVER_ErrorDelete(TRITONBACKEND_RequestId(self->facts[i].request, &id));
    snprintf(ids + used, sizeof ids - used, "%s%s", used > 0 ? ", " : "", id);
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
      return backend_error(TRITONSERVER_ERROR_INTERNAL, "%.*s", (int)length, reason);
  }
  uint32_t count = wire_get_u32(reader);
  uint64_t begun_ns = wire_get_u64(reader);
  uint64_t ended_ns = wire_get_u64(reader);
  if (!reader->bad)
    take_times(self, begun_ns, ended_ns);
  if (!reader->bad && count == self->count)
    return NULL;
  return backend_error(TRITONSERVER_ERROR_INTERNAL,
                       "the Python worker answered %u requests, %u were given", count, self->count);
}

// The request's responses come later, if not from here: they are counted with the times that are
// known now. A decoupled model's request is released meanwhile, and its trace with it.
static void respond_later(execution *self, open_request *open)
{
  open->exec_start_ns = self->exec_start_ns;
  open->compute_start_ns = self->compute_start_ns;
  if (self->instance->model->decoupled)
    open->trace = NULL;
  request_table_end(&self->instance->requests, open);
}

static void respond_now(execution *self, open_request *open)
{
  open_request ended = request_table_close(&self->instance->requests, open);
  open_request_end(self->instance, &ended);
}

static void report(const execution *self)
{
  for (uint32_t i = 0; i < self->count; i++) {
    const open_request *open = self->open[i];
    if (self->instance->model->decoupled || (open != NULL && open->response != NULL))
      execution_report(self, i, open == NULL || open->error == NULL);
  }
  if (self->batch_size > 0)
    backend_request_error_log(self->instance->server_instance, NULL,
                              TRITONBACKEND_ModelInstanceReportBatchStatistics(
                                  self->instance->server_instance, self->batch_size,
                                  self->exec_start_ns, self->compute_start_ns, self->compute_end_ns,
                                  clock_monotonic_ns()),
                              "report batch statistics");
}

static void send_responses(execution *self)
{
  for (uint32_t i = 0; i < self->count; i++) {
    open_request *open = self->open[i];
    if (open != NULL && (open->response != NULL || open->error != NULL))
      respond_now(self, open);
    else if (open != NULL)
      respond_later(self, open);
    if (self->instance->model->decoupled)
      execution_release(self, i);
  }
  execution_set_state(self, EXECUTION_ENDED);
}

void execution_take_response(execution *self, const channel_message *message)
{
  channel *channel = worker_link_channel(self->link);
  control_part answer;
  execution_hold_all(self);
  TRITONSERVER_Error *error = control_part_copy(&answer, self->link, message)
                                  ? read_responses(self, &answer.reader)
                                  : backend_error_no_memory("a Python worker's answer");
  for (uint32_t i = 0; i < self->count && error == NULL; i++)
    read_response(self, i, &answer.reader);
  control_part_fini(&answer);
  if ((message->flags & ANSWER_RELEASED) != 0)
    channel_release(channel, self->block);
  if (error != NULL) {
    execution_fail(self, error);
    return;
  }
  report(self); // so that who has a response finds it counted
  send_responses(self);
}
