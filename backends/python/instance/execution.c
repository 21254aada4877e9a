// SPDX-License-Identifier: Apache-2.0
// Makes an execution of a batch's requests, fails it, and ends it. See execution.h.
#include "instance/execution.h"

#include "backend_error.h"
#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/state.h"

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

// ---- its requests' outcome

void execution_report_one(const execution *self, uint32_t index, bool success)
{
  const open_request request = {.request = self->facts[index].request,
                                .exec_start_ns = self->exec_start_ns,
                                .compute_start_ns = self->compute_start_ns,
                                .compute_end_ns = self->compute_end_ns};
  open_request_report(self->instance, &request, success);
}

void execution_release_one(const execution *self, uint32_t index)
{
  open_request_release(self->instance, &(open_request){.request = self->facts[index].request});
}

void execution_hold(execution *self)
{
  for (uint32_t i = 0; i < self->count; i++)
    self->open[i] = request_table_begin(&self->instance->requests, self->facts[i].handle);
  execution_set_state(self, EXECUTION_OPEN);
}

// Answers one request of this side with an error.
static void fail_one(execution *self, uint32_t index, TRITONSERVER_Error *error)
{
  const bool decoupled = self->instance->model->decoupled;
  if (decoupled)
    execution_report_one(self, index, false);
  if (self->open[index] != NULL) {
    open_request closed = request_table_close(&self->instance->requests, self->open[index]);
    open_request_fail(self->instance, &closed, error);
  }
  if (decoupled)
    execution_release_one(self, index);
}

void execution_fail(execution *self, TRITONSERVER_Error *error_owned)
{
  TRITONSERVER_Error *error = python_instance_explain(self->instance, error_owned);
  if (self->state == EXECUTION_SENT)
    execution_hold(self);
  for (uint32_t i = 0; i < self->count; i++)
    fail_one(self, i, error);
  TRITONSERVER_ErrorDelete(error);
  execution_set_state(self, EXECUTION_ENDED);
}

void execution_drop(execution *self, uint32_t index, TRITONSERVER_Error *error_owned)
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

void execution_end(execution *self)
{
  assert(self->state == EXECUTION_ENDED);
  if (self->link != NULL)
    worker_release_slot(self->instance->worker, self->link);
  for (uint32_t i = 0; i < self->count; i++)
    request_facts_fini(&self->facts[i]);
  free(self);
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
  execution_set_state(self, EXECUTION_ENDED);
  execution_end(self);
  return NULL;
}
