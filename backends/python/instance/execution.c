// An execution on its way to the worker and back. The instance's thread, or a loop of the server,
// which waits for no longer than it says.
#include "instance/execution.h"

#include "backend_error.h"
#include "base/clock.h"
#include "base/state.h"
#include "codec/protocol.h"
#include "instance/open_request.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void execution_set_state(execution *self, execution_state state)
{
  static const unsigned allowed[] = {
      [EXECUTION_MADE] = STATE_BIT(EXECUTION_OPEN) | STATE_BIT(EXECUTION_ENDED),
      [EXECUTION_OPEN] = STATE_BIT(EXECUTION_SENT) | STATE_BIT(EXECUTION_ENDED),
      [EXECUTION_SENT] = STATE_BIT(EXECUTION_OPEN) | STATE_BIT(EXECUTION_ENDED),
      [EXECUTION_ENDED] = 0,
  };
  state_assert(allowed, self->state, state);
  self->state = state;
}

// ---- what becomes of its requests

static open_request request_of(const execution *self, TRITONBACKEND_Request *request)
{
  return (open_request){.request = request,
                        .exec_start_ns = self->exec_start_ns,
                        .compute_start_ns = self->compute_start_ns,
                        .compute_end_ns = self->compute_end_ns};
}

void execution_report(const execution *self, uint32_t index, bool success)
{
  const open_request request = request_of(self, self->facts[index].request);
  open_request_report(self->instance, &request, success);
}

void execution_release(const execution *self, uint32_t index)
{
  const open_request request = request_of(self, self->facts[index].request);
  open_request_release(self->instance, &request);
}

void execution_hold_all(execution *self)
{
  for (uint32_t i = 0; i < self->count; i++)
    self->open[i] = request_table_begin(&self->instance->requests, self->facts[i].handle);
  execution_set_state(self, EXECUTION_OPEN);
}

static void fail_one(execution *self, uint32_t index, TRITONSERVER_Error *error)
{
  open_request request = request_of(self, self->facts[index].request);
  const bool decoupled = self->state != EXECUTION_MADE && self->instance->model->decoupled;
  if (decoupled)
    open_request_report(self->instance, &request, false);
  if (self->open[index] != NULL)
    request = request_table_close(&self->instance->requests, self->open[index]);
  if (self->open[index] != NULL || self->state == EXECUTION_MADE)
    open_request_fail(self->instance, &request, error);
  if (decoupled)
    execution_release(self, index);
}

void execution_fail(execution *self, TRITONSERVER_Error *error_owned)
{
  TRITONSERVER_Error *error = python_instance_explain(self->instance, error_owned);
  if (self->state == EXECUTION_SENT)
    execution_hold_all(self);
  for (uint32_t i = 0; i < self->count; i++)
    fail_one(self, i, error);
  TRITONSERVER_ErrorDelete(error);
  execution_set_state(self, EXECUTION_ENDED);
}

// Answers one with an error and goes on without it.
static void drop(execution *self, uint32_t index, TRITONSERVER_Error *error_owned)
{
  assert(self->state == EXECUTION_OPEN);
  fail_one(self, index, error_owned);
  TRITONSERVER_ErrorDelete(error_owned);
  request_facts_fini(&self->facts[index]);
  self->count--;
  const uint32_t after = self->count - index;
  memmove(&self->facts[index], &self->facts[index + 1], after * sizeof *self->facts);
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
  *rows = rank > 0 ? (uint64_t)dims[0] : 1;
  return NULL;
}

// Triton's checks of a batch.
static TRITONSERVER_Error *check_batch(const python_instance *instance,
                                       TRITONBACKEND_Request **requests, uint32_t count,
                                       uint64_t *batch_size)
{
  const char *name = worker_name(instance->worker);
  const int64_t max_batch_size = instance->model->max_batch_size;
  *batch_size = 0;
  for (uint32_t i = 0; i < count; i++)
    if (requests[i] == NULL)
      return backend_error(TRITONSERVER_ERROR_INTERNAL,
                           "null request given to Python backend for '%s'", name);
  for (uint32_t i = 0; i < count; i++) {
    uint64_t rows = 1;
    if (max_batch_size > 0)
      BACKEND_RETURN_IF_ERROR(request_rows(requests[i], &rows));
    *batch_size += rows;
  }
  if (*batch_size > 1 && *batch_size > (uint64_t)max_batch_size)
    return backend_error(TRITONSERVER_ERROR_INTERNAL,
                         "batch size %llu for '%s', max allowed is %lld",
                         (unsigned long long)*batch_size, name, (long long)max_batch_size);
  return NULL;
}

// Not one that would wait for itself here, nor one that cannot be read.
static TRITONSERVER_Error *admit(execution *self, TRITONBACKEND_Request *request)
{
  python_instance *instance = self->instance;
  char *circle = wait_graph_give(&instance->node, self->work_id, request);
  if (circle == NULL)
    return request_facts_read(request, instance->host_policy, &self->facts[self->count]);
  TRITONSERVER_Error *error = backend_error(TRITONSERVER_ERROR_INTERNAL, "%s", circle);
  free(circle);
  return error;
}

static void admit_all(execution *self, TRITONBACKEND_Request **requests, uint32_t count)
{
  for (uint32_t i = 0; i < count; i++) {
    TRITONSERVER_Error *error = admit(self, requests[i]);
    if (error == NULL) {
      self->count++;
      continue;
    }
    open_request refused = request_of(self, requests[i]);
    open_request_fail(self->instance, &refused, error);
    TRITONSERVER_ErrorDelete(error);
  }
}

TRITONSERVER_Error *execution_new(python_instance *instance, TRITONBACKEND_Request **requests,
                                  uint32_t count, execution **made)
{
  uint64_t batch_size;
  const uint64_t now = clock_monotonic_ns();
  *made = NULL;
  worker_touch(instance->worker);
  BACKEND_RETURN_IF_ERROR(check_batch(instance, requests, count, &batch_size));
  execution *self =
      calloc(1, sizeof *self + count * (sizeof *self->facts + sizeof(open_request *)));
  if (self == NULL)
    return backend_error_no_memory("a batch");
  self->instance = instance;
  self->open = (open_request **)(self->facts + count);
  self->batch_size = batch_size;
  self->exec_start_ns = self->compute_start_ns = self->compute_end_ns = now;
  self->work_id = worker_next_number(instance->worker);
  admit_all(self, requests, count);
  if (self->count > 0) {
    *made = self;
    return NULL;
  }
  execution_set_state(self, EXECUTION_ENDED);
  execution_end(self);
  return NULL;
}

void execution_end(execution *self)
{
  assert(self->state == EXECUTION_ENDED);
  if (self->link != NULL)
    worker_release_slot(self->instance->worker, self->link);
  for (uint32_t i = 0; i < self->count; i++)
    request_facts_fini(&self->facts[i]);
  free(self);
}

// ---- sending it, and its answer

// Decoupled: the request is released when execute returns, its factory lives until the final
// response. Else the request stays until its response.
static TRITONSERVER_Error *open_one(execution *self, uint32_t index)
{
  request_facts *facts = &self->facts[index];
  open_request *open = self->open[index];
  facts->handle = open->handle;
  open->trace = facts->traced_by;
  open->exec_start_ns = open->compute_start_ns = self->exec_start_ns;
  if (self->instance->model->decoupled)
    return TRITONBACKEND_ResponseFactoryNew(&open->factory, facts->request);
  open->request = facts->request;
  return NULL;
}

// An error: none is open.
static TRITONSERVER_Error *open_all(execution *self)
{
  request_table *requests = &self->instance->requests;
  TRITONSERVER_Error *error = NULL;
  if (!request_table_add(requests, self->open, self->count))
    return backend_error_no_memory("a batch");
  uint32_t opened = 0;
  while (opened < self->count && (error = open_one(self, opened)) == NULL)
    opened++;
  for (uint32_t i = 0; error != NULL && i < self->count; i++) {
    open_request closed = request_table_close(requests, self->open[i]);
    if (i < opened)
      open_request_release(self->instance, &closed);
    self->open[i] = NULL;
  }
  if (error == NULL)
    execution_set_state(self, EXECUTION_OPEN);
  return error;
}

static uint32_t log_flags(void)
{
  return (TRITONSERVER_LogIsEnabled(TRITONSERVER_LOG_INFO) ? WORK_LOG_INFO : 0u) |
         (TRITONSERVER_LogIsEnabled(TRITONSERVER_LOG_WARN) ? WORK_LOG_WARN : 0u) |
         (TRITONSERVER_LogIsEnabled(TRITONSERVER_LOG_ERROR) ? WORK_LOG_ERROR : 0u) |
         (TRITONSERVER_LogIsEnabled(TRITONSERVER_LOG_VERBOSE) ? WORK_LOG_VERBOSE : 0u);
}

// Writes the requests; those whose inputs are at fault are answered, and left out.
static TRITONSERVER_Error *write_requests(execution *self, channel_message *work)
{
  while (self->count > 0) {
    uint32_t culprit;
    TRITONSERVER_Error *error = request_wire_write(worker_link_channel(self->link), self->facts,
                                                   self->count, work, &culprit);
    if (error == NULL || culprit == self->count)
      return error;
    drop(self, culprit, error);
  }
  return NULL;
}

// A worker that cannot be sent to is gone; who waits for its answer is told why.
static void send(execution *self, channel_message *work)
{
  work->kind = WORK_EXECUTE;
  work->flags = log_flags() | (self->instance->model->decoupled ? WORK_DECOUPLED : 0u) |
                (self->is_crowded ? WORK_CROWDED : 0u);
  work->value = self->count;
  work->id = self->work_id;
  self->block = work->offset;
  self->compute_start_ns = clock_monotonic_ns();
  for (uint32_t i = 0; i < self->count; i++) {
    self->open[i]->compute_start_ns = self->compute_start_ns;
    request_table_end(&self->instance->requests, self->open[i]);
    self->open[i] = NULL;
  }
  execution_set_state(self, EXECUTION_SENT);
  if (!channel_send(worker_link_channel(self->link), CHANNEL_WORK, work))
    channel_close(worker_link_channel(self->link));
}

bool execution_send(execution *self)
{
  channel_message work = {0};
  TRITONSERVER_Error *error = open_all(self);
  if (error == NULL)
    error = write_requests(self, &work);
  if (error != NULL)
    execution_fail(self, error);
  else if (self->count > 0)
    send(self, &work);
  else
    execution_set_state(self, EXECUTION_ENDED);
  return self->state == EXECUTION_SENT;
}

bool execution_await(execution *self, int64_t timeout_us)
{
  channel_message answer;
  TRITONSERVER_Error *error;
  channel *channel = worker_link_channel(self->link);
  channel_look(channel, CHANNEL_ANSWERS, !self->is_crowded);
  if (!worker_await(self->instance->worker, self->link, self->work_id, timeout_us, &answer, &error))
    return false;
  self->compute_end_ns = clock_monotonic_ns();
  if (error != NULL) {
    execution_fail(self, error);
  } else {
    execution_take_response(self, &answer);
    channel_done(channel, CHANNEL_ANSWERS);
  }
  return true;
}

void execution_run(execution *self)
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

TRITONSERVER_Error *python_instance_execute(python_instance *self, TRITONBACKEND_Request **requests,
                                            uint32_t count)
{
  execution *made;
  BACKEND_RETURN_IF_ERROR(execution_new(self, requests, count, &made));
  if (made != NULL) {
    execution_run(made);
    execution_end(made);
  }
  return NULL;
}
