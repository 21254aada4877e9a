// An execution on its way to the worker and back. The instance's thread, or a loop of the server,
// which waits for no longer than it says.
#include "instance/execution_run.h"

#include "backend_batch.h"
#include "backend_error.h"
#include "codec/protocol.h"
#include "instance/execution.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

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
static TRITONSERVER_Error *check_batch(execution *self)
{
  const char *name = worker_name(self->instance->worker);
  for (uint32_t i = 0; i < self->count; i++)
    if (self->requests[i] == NULL)
      return backend_error(TRITONSERVER_ERROR_INTERNAL,
                           "null request given to Python backend for '%s'", name);
  for (uint32_t i = 0; i < self->count; i++) {
    uint64_t rows = 1;
    if (self->instance->model->max_batch_size > 0)
      BACKEND_RETURN_IF_ERROR(request_rows(self->requests[i], &rows));
    self->batch_size += rows;
  }
  if (self->batch_size > 1 && self->batch_size > (uint64_t)self->instance->model->max_batch_size)
    return backend_error(TRITONSERVER_ERROR_INTERNAL,
                         "batch size %llu for '%s', max allowed is %lld",
                         (unsigned long long)self->batch_size, name,
                         (long long)self->instance->model->max_batch_size);
  return NULL;
}

// All of its requests have been answered before it was sent.
static void end_empty(execution *self)
{
  assert(self->count == 0);
  execution_set_state(self, EXECUTION_ENDED);
  execution_end(self);
}

static void read_facts(execution *self)
{
  const char *host_policy = self->instance->host_policy;
  for (uint32_t i = 0; i < self->count;) {
    TRITONSERVER_Error *error = request_facts_read(self->requests[i], host_policy, &self->facts[i]);
    if (error == NULL)
      i++;
    else
      execution_drop(self, i, error);
  }
}

// Answers calls that would wait for themselves here.
static void refuse_circles(execution *self)
{
  wait_node *node = &self->instance->node;
  for (uint32_t i = 0; i < self->count;) {
    char *circle = wait_graph_give(node, self->work_id, self->requests[i]);
    if (circle == NULL)
      i++;
    else
      execution_drop(self, i, backend_error(TRITONSERVER_ERROR_INTERNAL, "%s", circle));
    free(circle);
  }
}

TRITONSERVER_Error *execution_new(python_instance *instance, TRITONBACKEND_Request **requests,
                                  uint32_t count, execution **made)
{
  execution batch = {.instance = instance, .requests = requests, .count = count};
  *made = NULL;
  worker_touch(instance->worker);
  batch.exec_start_ns = batch.compute_start_ns = batch.compute_end_ns = clock_monotonic_ns();
  BACKEND_RETURN_IF_ERROR(check_batch(&batch));
  execution *self = execution_allocate(&batch);
  if (self == NULL)
    return backend_error_no_memory("a batch");
  self->work_id = worker_next_number(instance->worker);
  refuse_circles(self);
  read_facts(self);
  if (self->count > 0)
    *made = self;
  else
    end_empty(self);
  return NULL;
}

// ---- sending it, and its answer

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
    execution_drop(self, culprit, error);
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
  self->compute_start_ns = clock_monotonic_ns();
  for (uint32_t i = 0; i < self->count; i++)
    request_table_start(&self->instance->requests, self->handles[i], self->compute_start_ns);
  self->block = work->offset;
  work->id = self->work_id;
  execution_set_state(self, EXECUTION_SENT);
  if (!channel_send(worker_link_channel(self->link), CHANNEL_WORK, work))
    channel_close(worker_link_channel(self->link));
}

// Opens the requests and sends them to the worker; does not wait. False: all have been answered.
bool execution_send(execution *self)
{
  channel_message work = {0};
  TRITONSERVER_Error *error = execution_open(self);
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

// Waits for the worker's answer and deals with it. False: the worker is at work.
bool execution_await(execution *self, int64_t timeout_us)
{
  channel_message answer;
  TRITONSERVER_Error *error;
  channel_look(worker_link_channel(self->link), CHANNEL_ANSWERS, !self->is_crowded);
  if (!worker_await(self->instance->worker, self->link, self->work_id, timeout_us, &answer, &error))
    return false;
  self->compute_end_ns = clock_monotonic_ns();
  if (error != NULL) {
    execution_fail(self, error);
  } else {
    execution_take_response(self, &answer);
    channel_done(worker_link_channel(self->link), CHANNEL_ANSWERS);
  }
  return true;
}

// From the beginning, waiting for whatever it takes.
void execution_run(execution *self)
{
  TRITONSERVER_Error *error = worker_acquire_slot(self->instance->worker, &self->link);
  if (error != NULL) {
    execution_fail(self, error);
    return;
  }
  self->exec_start_ns = clock_monotonic_ns(); // until now it was queued
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
