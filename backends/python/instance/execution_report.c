// Whose the requests of an execution are to answer, and what is told of them: statistics, errors,
// the log. The instance's thread, or a loop of the server.
#include "instance/execution.h"
#include "instance/response_call.h"

#include "backend_error.h"
#include "base/clock.h"

#include <assert.h>
#include <string.h>

void execution_end_use(execution *self, uint32_t index, bool close)
{
  request_table_end(&self->instance->requests, self->handles[index], close);
}

// Begins to use all that are still open.
void execution_hold_all(execution *self)
{
  request_table *table = &self->instance->requests;
  for (uint32_t i = 0; i < self->count; i++)
    self->held[i] = request_table_begin(table, self->handles[i], &self->open[i]);
  execution_set_state(self, EXECUTION_OPEN);
}

void execution_report(execution *self, uint32_t index, bool success)
{
  execution_log_error(self, index,
                      TRITONBACKEND_ModelInstanceReportStatistics(
                          self->instance->server_instance, self->requests[index], success,
                          self->exec_start_ns, self->compute_start_ns, self->compute_end_ns,
                          clock_monotonic_ns()),
                      "report request statistics");
}

void execution_report_batch(execution *self)
{
  if (self->batch_size > 0)
    backend_request_error_log(self->instance->server_instance, NULL,
                              TRITONBACKEND_ModelInstanceReportBatchStatistics(
                                  self->instance->server_instance, self->batch_size,
                                  self->exec_start_ns, self->compute_start_ns, self->compute_end_ns,
                                  clock_monotonic_ns()),
                              "report batch statistics");
}

void execution_release(execution *self, uint32_t index)
{
  execution_log_error(
      self, index,
      TRITONBACKEND_RequestRelease(self->requests[index], TRITONSERVER_REQUEST_RELEASE_ALL),
      "release a request");
}

static void fail_one(execution *self, uint32_t index, TRITONSERVER_Error *error)
{
  open_request unopened = {.request = self->requests[index],
                           .exec_start_ns = self->exec_start_ns,
                           .compute_start_ns = self->exec_start_ns};
  bool decoupled = self->state != EXECUTION_MADE && self->instance->model->decoupled;
  if (decoupled)
    execution_report(self, index, false);
  if (self->state == EXECUTION_MADE) {
    open_request_fail(self->instance, &unopened, error);
  } else if (self->held[index]) {
    execution_end_use(self, index, true);
    open_request_fail(self->instance, &self->open[index], error);
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

void execution_drop(execution *self, uint32_t index, TRITONSERVER_Error *error_owned)
{
  assert(self->state == EXECUTION_MADE || self->state == EXECUTION_OPEN);
  fail_one(self, index, error_owned);
  TRITONSERVER_ErrorDelete(error_owned);
  request_facts_fini(&self->facts[index]);
  self->count--;
  uint32_t after = self->count - index;
  memmove(&self->requests[index], &self->requests[index + 1], after * sizeof *self->requests);
  memmove(&self->facts[index], &self->facts[index + 1], after * sizeof *self->facts);
  memmove(&self->open[index], &self->open[index + 1], after * sizeof *self->open);
  memmove(&self->handles[index], &self->handles[index + 1], after * sizeof *self->handles);
  self->facts[self->count] = (request_facts){0};
}
