// The worker's answer to an execution: its responses are read, sent, and counted. The instance's
// thread, or a loop of the server.
#include "instance/execution.h"
#include "instance/response_call.h"

#include "backend_batch.h"
#include "backend_error.h"
#include "backend_log.h"
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
  wire_response head;
  wire_response_read(reader, &head);
  if (!self->held[index]) {
    response_skip(channel, reader, &head);
    return;
  }
  if (head.kind == RESPONSE_NONE && !reader->bad)
    return;
  if (self->instance->model->decoupled) { // only an error, which ends the request
    response_skip(channel, reader, &head);
    self->errors[index] = decoupled_error(self, reader, &head);
    return;
  }
  self->errors[index] = TRITONBACKEND_ResponseNew(&self->responses[index], self->requests[index]);
  if (self->errors[index] != NULL)
    self->responses[index] = NULL;
  else
    self->errors[index] = response_fill(self->responses[index], &self->instance->model->signature,
                                        channel, reader, &head);
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
    if (!self->held[i] && !self->instance->model->decoupled)
      continue;
    TRITONSERVER_ErrorDelete(TRITONBACKEND_RequestId(self->requests[i], &id));
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

// One that is answered now, at once.
static void send_one(execution *self, uint32_t index)
{
  execution_end_use(self, index, true);
  if (self->responses[index] != NULL) {
    execution_log_error(self, index,
                        TRITONBACKEND_ResponseSend(self->responses[index],
                                                   TRITONSERVER_RESPONSE_COMPLETE_FINAL,
                                                   self->errors[index]),
                        "send a response");
    execution_release(self, index);
  } else {
    open_request_fail(self->instance, &self->open[index], self->errors[index]);
  }
}

// The request's responses come later, if not from here: they are counted with the times that are
// known now. A decoupled model's request is released meanwhile, and its trace with it.
static void respond_later(execution *self, uint32_t index)
{
  open_request *open = &self->open[index];
  open->exec_start_ns = self->exec_start_ns;
  open->compute_start_ns = self->compute_start_ns;
  if (self->instance->model->decoupled)
    open->trace = NULL;
  request_table_change(&self->instance->requests, self->handles[index], open);
  execution_end_use(self, index, false);
}

// Statistics come before responses, so that who has a response finds it counted.
static void send_responses(execution *self)
{
  for (uint32_t i = 0; i < self->count; i++)
    if (self->instance->model->decoupled || self->responses[i] != NULL)
      execution_report(self, i, self->errors[i] == NULL);
  execution_report_batch(self);
  for (uint32_t i = 0; i < self->count; i++) {
    if (self->held[i] && (self->responses[i] != NULL || self->errors[i] != NULL))
      send_one(self, i);
    else if (self->held[i])
      respond_later(self, i);
    if (self->instance->model->decoupled)
      execution_release(self, i);
    TRITONSERVER_ErrorDelete(self->errors[i]);
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
  if (error == NULL)
    send_responses(self);
  else
    execution_fail(self, error);
}
