// SPDX-License-Identifier: Apache-2.0
// An execution: the worker gets it and answers it. Its requests are in the table of open requests;
// CALL_RESPONSE messages meanwhile are the listener's. Runs on the instance's thread, or on a loop
// of the server, which waits no longer than its timeout.
#include "codec/request_wire.h"
#include "codec/response_fill.h"
#include "instance/open_request.h"
#include "instance/python_instance.h"
#include "process/worker_slot.h"

#include "backend_error.h"
#include "backend_extension.h"
#include "backend_log.h"
#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/state.h"
#include "codec/protocol.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_EXECUTIONS 8  // given to a worker, including the one that it runs
#define CROWDED_FOR    16 // executions that count as crowded: a crowded one, and those after it

#define REQUEST_IDS_BYTES 256 // in a log line

typedef enum execution_state {
  EXECUTION_OPEN, // this side must answer the requests in `open`
  EXECUTION_SENT, // the worker has them
  EXECUTION_ENDED // they are answered, or CALL_RESPONSE will do it
} execution_state;

typedef struct execution {
  python_instance *instance;
  execution_state state;
  worker_link *link; // while it has a share in the slot
  uint64_t work_id;  // of the message
  uint64_t block;    // its memory
  uint64_t life;     // the number of the worker that it must go to; 0: any
  uint32_t count;
  open_request **open; // NULL: answered, or in the worker's hands
  uint64_t batch_size;
  uint64_t exec_start_ns;
  uint64_t compute_start_ns;
  uint64_t compute_end_ns;
  uint64_t took_ns; // as the worker reports; 0: unknown
  bool is_crowded;  // there is other work beside it
  bool is_behind;   // sent before the worker had answered an earlier one
  bool on_devices;  // inputs are on a device: not for a loop
  bool has_answer;  // an answer with tensors on a device, which a loop has left to the instance's
                    // thread
  channel_message answer;
  list_node begun; // in ahead_queue
  request_facts facts[];
} execution;

static void set_state(execution *self, execution_state state)
{
  static const unsigned allowed[] = {
      [EXECUTION_OPEN] = STATE_BIT(EXECUTION_SENT) | STATE_BIT(EXECUTION_ENDED),
      [EXECUTION_SENT] = STATE_BIT(EXECUTION_OPEN) | STATE_BIT(EXECUTION_ENDED),
      [EXECUTION_ENDED] = 0,
  };
  state_assert(allowed, self->state, state);
  self->state = state;
}

// ---- its requests' outcome

// The request is or was the execution's; the same holds for release_one.
static void report_one(const execution *self, uint32_t index, bool success)
{
  const open_request request = {.request = self->facts[index].request,
                                .exec_start_ns = self->exec_start_ns,
                                .compute_start_ns = self->compute_start_ns,
                                .compute_end_ns = self->compute_end_ns};
  open_request_report(self->instance, &request, success);
}

static void release_one(const execution *self, uint32_t index)
{
  open_request_release(self->instance, &(open_request){.request = self->facts[index].request});
}

// Takes all requests that are still open back from the worker.
static void hold_all(execution *self)
{
  for (uint32_t i = 0; i < self->count; i++)
    self->open[i] = request_table_begin(&self->instance->requests, self->facts[i].handle);
  set_state(self, EXECUTION_OPEN);
}

// Answers one request of this side with an error.
static void fail_one(execution *self, uint32_t index, TRITONSERVER_Error *error)
{
  const bool decoupled = self->instance->model->decoupled;
  if (decoupled)
    report_one(self, index, false);
  if (self->open[index] != NULL) {
    open_request closed = request_table_close(&self->instance->requests, self->open[index]);
    open_request_fail(self->instance, &closed, error);
  }
  if (decoupled)
    release_one(self, index);
}

// Answers all requests of this side with the same error, and ends.
static void execution_fail(execution *self, TRITONSERVER_Error *error_owned)
{
  TRITONSERVER_Error *error = python_instance_explain(self->instance, error_owned);
  if (self->state == EXECUTION_SENT)
    hold_all(self);
  for (uint32_t i = 0; i < self->count; i++)
    fail_one(self, i, error);
  TRITONSERVER_ErrorDelete(error);
  set_state(self, EXECUTION_ENDED);
}

// Answers one request with an error and continues without it.
static void drop(execution *self, uint32_t index, TRITONSERVER_Error *error_owned)
{
  assert(self->state == EXECUTION_OPEN);
  fail_one(self, index, error_owned);
  TRITONSERVER_ErrorDelete(error_owned);
  request_facts_fini(&self->facts[index]);
  self->count--;
  const uint32_t after = self->count - index;
  memmove(&self->facts[index], &self->facts[index + 1], after * sizeof(*self->facts));
  memmove(&self->open[index], &self->open[index + 1], after * sizeof(open_request *));
}

// ---- making one

static TRITONSERVER_Error *request_rows(TRITONBACKEND_Request *request, uint64_t *rows)
{
  TRITONBACKEND_Input *input;
  const int64_t *dims;
  uint32_t rank = 0;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_RequestInputByIndex(request, 0, &input));
  BACKEND_RETURN_IF_ERROR(
      TRITONBACKEND_InputProperties(input, NULL, NULL, &dims, &rank, NULL, NULL));
  *rows += rank > 0 ? (uint64_t)dims[0] : 1;
  return NULL;
}

// The checks that Triton makes of a batch.
static TRITONSERVER_Error *check_batch(const python_instance *instance,
                                       TRITONBACKEND_Request **requests, uint32_t count,
                                       uint64_t *batch_size)
{
  const char *name = worker_name(instance->worker);
  const int64_t max_batch_size = instance->model->max_batch_size;
  for (uint32_t i = 0; i < count; i++)
    if (requests[i] == NULL)
      return backend_error_internal("null request given to Python backend for '%s'", name);
  *batch_size = max_batch_size > 0 ? 0 : count;
  for (uint32_t i = 0; max_batch_size > 0 && i < count; i++)
    BACKEND_RETURN_IF_ERROR(request_rows(requests[i], batch_size));
  if (*batch_size > 1 && *batch_size > (uint64_t)max_batch_size)
    return backend_error_internal("batch size %llu for '%s', max allowed is %lld",
                                  (unsigned long long)*batch_size, name, (long long)max_batch_size);
  return NULL;
}

// Decoupled: the request is released when execute returns, and its factory lives until the final
// response. Otherwise the request stays until its response. An error: the request would wait for
// itself here, or cannot be read.
static TRITONSERVER_Error *admit(execution *self, open_request *open)
{
  python_instance *instance = self->instance;
  request_facts *facts = &self->facts[self->count];
  AUTO_FREE char *circle = wait_graph_give(&instance->node, self->work_id, open->request);
  if (circle != NULL)
    return backend_error_internal("%s", circle);
  BACKEND_RETURN_IF_ERROR(request_facts_read(open->request, instance->host_policy,
                                             instance->model->takes_devices, facts));
  self->on_devices |= facts->places != NULL;
  if (instance->model->decoupled) {
    TRITONSERVER_Error *error = TRITONBACKEND_ResponseFactoryNew(&open->factory, open->request);
    if (error != NULL) {
      request_facts_fini(facts);
      return error;
    }
    open->request = NULL;
  }
  facts->states = instance->model->signature.states;
  facts->state_count = instance->model->signature.state_count;
  facts->handle = open->handle;
  open->trace = facts->traced_by;
  self->open[self->count++] = open;
  return NULL;
}

// Requests that cannot be admitted are answered.
static void admit_all(execution *self, TRITONBACKEND_Request **requests, uint32_t count)
{
  for (uint32_t i = 0; i < count; i++) {
    open_request *open = self->open[i];
    open->request = requests[i];
    open->exec_start_ns = open->compute_start_ns = self->exec_start_ns;
    TRITONSERVER_Error *error = admit(self, open);
    if (error == NULL)
      continue;
    open_request refused = request_table_close(&self->instance->requests, open);
    open_request_fail(self->instance, &refused, error);
    TRITONSERVER_ErrorDelete(error);
  }
}

// Gives up its share in the slot, and frees it.
static void execution_end(execution *self)
{
  assert(self->state == EXECUTION_ENDED);
  if (self->link != NULL)
    worker_release_slot(self->instance->worker, self->link);
  for (uint32_t i = 0; i < self->count; i++)
    request_facts_fini(&self->facts[i]);
  free(self);
}

// An execution of the readable requests. `*made` NULL without an error: all were answered.
static TRITONSERVER_Error *execution_new(python_instance *instance,
                                         TRITONBACKEND_Request **requests, uint32_t count,
                                         execution **made)
{
  uint64_t batch_size = 0;
  const uint64_t now = clock_monotonic_ns();
  *made = NULL;
  worker_touch(instance->worker);
  BACKEND_RETURN_IF_ERROR(check_batch(instance, requests, count, &batch_size));
  execution *self = NULL;
  size_t size;
  if (checked_array_size(sizeof(*self), count, sizeof(*self->facts) + sizeof(open_request *),
                         &size))
    self = calloc(1, size);
  if (self != NULL)
    self->open = (open_request **)(self->facts + count);
  if (self == NULL || !request_table_add(&instance->requests, self->open, count)) {
    free(self);
    return backend_error_no_memory("a batch");
  }
  self->instance = instance;
  self->batch_size = batch_size;
  self->life = instance->told_life;
  self->exec_start_ns = self->compute_start_ns = self->compute_end_ns = now;
  self->work_id = worker_next_number(instance->worker);
  admit_all(self, requests, count);
  if (self->count > 0) {
    *made = self;
    return NULL;
  }
  set_state(self, EXECUTION_ENDED);
  execution_end(self);
  return NULL;
}

// ---- sending it, and its answer

static uint32_t work_flags(const execution *self)
{
  static const uint32_t logs[] = {[TRITONSERVER_LOG_INFO] = WORK_LOG_INFO,
                                  [TRITONSERVER_LOG_WARN] = WORK_LOG_WARN,
                                  [TRITONSERVER_LOG_ERROR] = WORK_LOG_ERROR,
                                  [TRITONSERVER_LOG_VERBOSE] = WORK_LOG_VERBOSE};
  uint32_t flags = (self->instance->model->decoupled ? WORK_DECOUPLED : 0u) |
                   (self->is_crowded ? WORK_CROWDED : 0u);
  for (unsigned level = 0; level < sizeof(logs) / sizeof(*logs); level++)
    if (TRITONSERVER_LogIsEnabled((TRITONSERVER_LogLevel)level))
      flags |= logs[level];
  return flags;
}

// Writes the requests. One whose inputs cause an error is answered and left out.
static TRITONSERVER_Error *write_requests(execution *self, channel_message *work)
{
  device_share *devices = self->on_devices ? worker_link_devices(self->link) : NULL;
  if (self->on_devices && devices == NULL)
    return backend_error_no_memory("a batch");
  while (self->count > 0) {
    uint32_t culprit;
    TRITONSERVER_Error *error =
        request_wire_write(self->link->channel, devices, self->facts, self->count, work, &culprit);
    if (error == NULL || culprit == self->count)
      return error;
    drop(self, culprit, error);
  }
  return NULL;
}

// If sending fails the worker is gone; the wait for the answer finds out why.
static void send_work(execution *self, channel_message *work)
{
  // The worker takes executions in the order of their numbers; wait_graph.c relies on it.
  assert(self->work_id > self->instance->ahead.sent);
  self->instance->ahead.sent = self->work_id;
  work->kind = WORK_EXECUTE;
  work->flags = work_flags(self);
  work->value = self->count;
  work->id = self->work_id;
  self->block = work->offset;
  self->compute_start_ns = clock_monotonic_ns();
  for (uint32_t i = 0; i < self->count; i++) {
    self->open[i]->exec_start_ns = self->exec_start_ns;
    self->open[i]->compute_start_ns = self->compute_start_ns;
    request_table_end(&self->instance->requests, self->open[i]);
    self->open[i] = NULL;
  }
  set_state(self, EXECUTION_SENT);
  if (!channel_send(self->link->channel, CHANNEL_WORK, work))
    channel_close(self->link->channel);
}

// Sends the requests; does not wait. False: it has ended. A worker other than the one that it must
// go to does not know its sequences.
static bool execution_send(execution *self)
{
  channel_message work = {0};
  TRITONSERVER_Error *error = self->life != 0 && self->life != self->link->number
                                  ? worker_gone(self->instance->worker)
                                  : write_requests(self, &work);
  if (error != NULL)
    execution_fail(self, error);
  else if (self->count > 0)
    send_work(self, &work);
  else
    set_state(self, EXECUTION_ENDED);
  return self->state == EXECUTION_SENT;
}

// ---- the worker's answer: its responses are read, sent, and counted

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
      report_one(self, i, !self->facts[i].has_failed && (open == NULL || open->error == NULL));
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
  release_one(self, index);
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
      release_one(self, i);
  }
  set_state(self, EXECUTION_ENDED);
}

static void take_answer(execution *self, const channel_message *message)
{
  control_part answer;
  hold_all(self);
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

// Waits for the worker's answer and handles it. False: the worker is still busy, or the answer is
// not for a loop (a loop's timeout is not negative).
static bool execution_await(execution *self, int64_t timeout_us)
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

// The whole execution, with all waits.
static void execution_run(execution *self)
{
  TRITONSERVER_Error *error = worker_acquire_slot(self->instance->worker, &self->link);
  if (error != NULL) {
    execution_fail(self, error);
    return;
  }
  self->exec_start_ns = clock_monotonic_ns(); // until now it was queued
  self->compute_start_ns = self->compute_end_ns = self->exec_start_ns;
  if (execution_send(self))
    execution_await(self, -1);
}

TRITONSERVER_Error *python_instance_execute(void *self, TRITONBACKEND_ModelInstance *instance,
                                            TRITONBACKEND_Request **requests, uint32_t count)
{
  (void)instance;
  execution *made;
  BACKEND_RETURN_IF_ERROR(execution_new(self, requests, count, &made));
  if (made != NULL) {
    execution_run(made);
    execution_end(made);
  }
  return NULL;
}

// ---- executions ahead (backend_extension.h): begun while earlier ones are open. A fast model's
// are sent behind the worker's current work, so that the worker need not wait for the next. In a
// crowd both sides sleep instead of polling.

static void record_duration(ahead_queue *self, uint64_t took_ns)
{
  const uint64_t before = atomic_load_explicit(&self->ewma_ns, memory_order_relaxed);
  // A slower time counts at once.
  const uint64_t now = before < took_ns ? took_ns : before - before / 8 + took_ns / 8;
  atomic_store_explicit(&self->ewma_ns, now, memory_order_relaxed);
}

// Takes the slot, or a share in that of the earlier executions.
static bool try_begin(python_instance *instance, const execution *before, execution *self)
{
  if (before == NULL)
    return worker_try_acquire_slot(instance->worker, &self->link);
  if (before->link == NULL || !worker_share_slot(instance->worker, before->link))
    return false; // it is sent when the earlier ones have ended
  self->link = before->link;
  self->is_behind = true;
  return true;
}

static void record_crowd(ahead_queue *begun, execution *self)
{
  if (self->is_behind || self->count > 1)
    begun->crowded = CROWDED_FOR;
  else if (begun->crowded > 0)
    begun->crowded--;
  self->is_crowded = begun->crowded > 0;
}

TRITONSERVER_Error *NEREID_ModelInstanceExecuteBegin(TRITONBACKEND_ModelInstance *server_instance,
                                                     TRITONBACKEND_Request **requests,
                                                     uint32_t count, bool *pending)
{
  python_instance *instance = python_instance_of(server_instance);
  ahead_queue *begun = &instance->ahead;
  execution *self;
  *pending = false;
  BACKEND_RETURN_IF_ERROR(execution_new(instance, requests, count, &self));
  if (self == NULL)
    return NULL;
  bool has_slot =
      !self->on_devices &&
      try_begin(instance, container_of(list_last(&begun->executions), execution, begun), self);
  record_crowd(begun, self);
  *pending = !has_slot || execution_send(self);
  if (*pending)
    list_append(&begun->executions, &self->begun);
  else
    execution_end(self);
  return NULL;
}

uint64_t NEREID_ModelInstanceLife(TRITONBACKEND_ModelInstance *server_instance)
{
  python_instance *instance = python_instance_of(server_instance);
  return instance->told_life = worker_life(instance->worker);
}

uint32_t NEREID_ModelInstanceMaxExecutions(TRITONBACKEND_ModelInstance *server_instance)
{
  const python_instance *instance = python_instance_of(server_instance);
  const execution *before = container_of(list_last(&instance->ahead.executions), execution, begun);
  const uint64_t usual = atomic_load_explicit(&instance->ahead.ewma_ns, memory_order_relaxed);
  const uint64_t most_us = (uint64_t)instance->model->backend->hand_ahead_us;
  if (before == NULL || before->link == NULL || usual == 0 || usual / 1000 > most_us ||
      !worker_may_share_slot(instance->worker, before->link))
    return 1;
  return MAX_EXECUTIONS;
}

void NEREID_ModelInstanceExecuteEnd(TRITONBACKEND_ModelInstance *instance, int64_t timeout_us,
                                    bool *pending)
{
  ahead_queue *begun = &python_instance_of(instance)->ahead;
  execution *self = container_of(list_first(&begun->executions), execution, begun);
  *pending = true;
  if (self->link == NULL && timeout_us >= 0)
    return; // the worker was not free, and a loop must not wait
  if (self->link == NULL)
    execution_run(self);
  else if (!execution_await(self, timeout_us))
    return;
  if (self->took_ns > 0)
    record_duration(begun, self->took_ns);
  list_remove(&self->begun);
  *pending = false;
  execution_end(self);
}
