// An execution on its way to the worker and back. The instance's thread, or a loop of the server,
// which waits for no longer than it says.
#include "instance/execution.h"

#include "backend_error.h"
#include "base/checked.h"
#include "base/cleanup.h"
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
      [EXECUTION_OPEN] = STATE_BIT(EXECUTION_SENT) | STATE_BIT(EXECUTION_ENDED),
      [EXECUTION_SENT] = STATE_BIT(EXECUTION_OPEN) | STATE_BIT(EXECUTION_ENDED),
      [EXECUTION_ENDED] = 0,
  };
  state_assert(allowed, self->state, state);
  self->state = state;
}

// ---- what becomes of its requests

void execution_report(const execution *self, uint32_t index, bool success)
{
  const open_request request = {.request = self->facts[index].request,
                                .exec_start_ns = self->exec_start_ns,
                                .compute_start_ns = self->compute_start_ns,
                                .compute_end_ns = self->compute_end_ns};
  open_request_report(self->instance, &request, success);
}

void execution_release(const execution *self, uint32_t index)
{
  open_request_release(self->instance, &(open_request){.request = self->facts[index].request});
}

void execution_hold_all(execution *self)
{
  for (uint32_t i = 0; i < self->count; i++)
    self->open[i] = request_table_begin(&self->instance->requests, self->facts[i].handle);
  execution_set_state(self, EXECUTION_OPEN);
}

// Answers with an error what is ours to answer.
static void fail_one(execution *self, uint32_t index, TRITONSERVER_Error *error)
{
  const bool decoupled = self->instance->model->decoupled;
  if (decoupled)
    execution_report(self, index, false);
  if (self->open[index] != NULL) {
    open_request closed = request_table_close(&self->instance->requests, self->open[index]);
    open_request_fail(self->instance, &closed, error);
  }
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
  *rows += rank > 0 ? (uint64_t)dims[0] : 1;
  return NULL;
}

// Triton's checks of a batch.
static TRITONSERVER_Error *check_batch(const python_instance *instance,
                                       TRITONBACKEND_Request **requests, uint32_t count,
                                       uint64_t *batch_size)
{
  const char *name = worker_name(instance->worker);
  const int64_t max_batch_size = instance->model->max_batch_size;
  for (uint32_t i = 0; i < count; i++)
    if (requests[i] == NULL)
      return backend_error(TRITONSERVER_ERROR_INTERNAL,
                           "null request given to Python backend for '%s'", name);
  *batch_size = max_batch_size > 0 ? 0 : count;
  for (uint32_t i = 0; max_batch_size > 0 && i < count; i++)
    BACKEND_RETURN_IF_ERROR(request_rows(requests[i], batch_size));
  if (*batch_size > 1 && *batch_size > (uint64_t)max_batch_size)
    return backend_error(TRITONSERVER_ERROR_INTERNAL,
                         "batch size %llu for '%s', max allowed is %lld",
                         (unsigned long long)*batch_size, name, (long long)max_batch_size);
  return NULL;
}

// Decoupled: the request is released when execute returns, its factory lives until the final
// response. Else the request stays until its response. An error: it would wait for itself here, or
// cannot be read.
static TRITONSERVER_Error *admit(execution *self, open_request *open)
{
  python_instance *instance = self->instance;
  request_facts *facts = &self->facts[self->count];
  AUTO_FREE char *circle = wait_graph_give(&instance->node, self->work_id, open->request);
  if (circle != NULL)
    return backend_error(TRITONSERVER_ERROR_INTERNAL, "%s", circle);
  BACKEND_RETURN_IF_ERROR(request_facts_read(open->request, instance->host_policy, facts));
  if (instance->model->decoupled) {
    TRITONSERVER_Error *error = TRITONBACKEND_ResponseFactoryNew(&open->factory, open->request);
    if (error != NULL) {
      request_facts_fini(facts);
      return error;
    }
    open->request = NULL;
  }
  facts->handle = open->handle;
  open->trace = facts->traced_by;
  self->open[self->count++] = open;
  return NULL;
}

// Those that cannot be admitted are answered.
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

TRITONSERVER_Error *execution_new(python_instance *instance, TRITONBACKEND_Request **requests,
                                  uint32_t count, execution **made)
{
  uint64_t batch_size = 0;
  const uint64_t now = clock_monotonic_ns();
  *made = NULL;
  worker_touch(instance->worker);
  BACKEND_RETURN_IF_ERROR(check_batch(instance, requests, count, &batch_size));
  execution *self = NULL;
  size_t size;
  if (checked_array_size(sizeof *self, count, sizeof *self->facts + sizeof(open_request *), &size))
    self = calloc(1, size);
  if (self != NULL)
    self->open = (open_request **)(self->facts + count);
  if (self == NULL || !request_table_add(&instance->requests, self->open, count)) {
    free(self);
    return backend_error_no_memory("a batch");
  }
  self->instance = instance;
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

static uint32_t work_flags(const execution *self)
{
  static const uint32_t logs[] = {[TRITONSERVER_LOG_INFO] = WORK_LOG_INFO,
                                  [TRITONSERVER_LOG_WARN] = WORK_LOG_WARN,
                                  [TRITONSERVER_LOG_ERROR] = WORK_LOG_ERROR,
                                  [TRITONSERVER_LOG_VERBOSE] = WORK_LOG_VERBOSE};
  uint32_t flags = (self->instance->model->decoupled ? WORK_DECOUPLED : 0u) |
                   (self->is_crowded ? WORK_CROWDED : 0u);
  for (unsigned level = 0; level < sizeof logs / sizeof *logs; level++)
    if (TRITONSERVER_LogIsEnabled((TRITONSERVER_LogLevel)level))
      flags |= logs[level];
  return flags;
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

// A worker that cannot be sent to is gone; who waits for its answer finds out why.
static void send(execution *self, channel_message *work)
{
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
  execution_set_state(self, EXECUTION_SENT);
  if (!channel_send(worker_link_channel(self->link), CHANNEL_WORK, work))
    channel_close(worker_link_channel(self->link));
}

bool execution_send(execution *self)
{
  channel_message work = {0};
  TRITONSERVER_Error *error = write_requests(self, &work);
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
