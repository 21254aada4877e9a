// What an execution is made of: the requests' memory, their place in the table of open requests,
// and its states. The instance's thread, or a loop of the server.
#include "instance/execution.h"

#include "backend_batch.h"
#include "backend_error.h"
#include "backend_log.h"
#include "base/state.h"

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

// A copy of `batch` with its lists, in one piece. The server's list of requests is copied too,
// since those that cannot be read are taken out of it. NULL: no memory.
execution *execution_allocate(const execution *batch)
{
  size_t count = batch->count;
  const size_t each = sizeof(request_facts) + sizeof(open_request) + sizeof(uint64_t) +
                      sizeof(TRITONBACKEND_Request *) + sizeof(TRITONBACKEND_Response *) +
                      sizeof(TRITONSERVER_Error *) + sizeof(bool);
  size_t size;
  if (__builtin_mul_overflow(count, each, &size) ||
      __builtin_add_overflow(size, sizeof(execution), &size))
    return NULL;
  execution *self = calloc(1, size);
  if (self == NULL)
    return NULL;
  *self = *batch;
  self->facts = (request_facts *)(self + 1);
  self->open = (open_request *)(self->facts + count);
  self->handles = (uint64_t *)(self->open + count);
  self->requests = (TRITONBACKEND_Request **)(self->handles + count);
  self->responses = (TRITONBACKEND_Response **)(self->requests + count);
  self->errors = (TRITONSERVER_Error **)(self->responses + count);
  self->held = (bool *)(self->errors + count);
  memcpy(self->requests, batch->requests, count * sizeof(TRITONBACKEND_Request *));
  return self;
}

void execution_log_error(const execution *self, uint32_t index, TRITONSERVER_Error *error_owned,
                         const char *doing)
{
  backend_request_error_log(self->instance->server_instance, self->requests[index], error_owned,
                            doing);
}

static void delete_factories(execution *self)
{
  for (uint32_t i = 0; i < self->count; i++) {
    if (self->open[i].factory != NULL)
      execution_log_error(self, i, TRITONBACKEND_ResponseFactoryDelete(self->open[i].factory),
                          "delete a response factory");
    self->open[i].factory = NULL;
  }
}

// Decoupled: the request is released when execute returns, its factory lives until the final
// response. Else the request stays until its response.
TRITONSERVER_Error *execution_open(execution *self)
{
  TRITONSERVER_Error *error = NULL;
  for (uint32_t i = 0; i < self->count && error == NULL; i++) {
    self->open[i] = (open_request){.trace = self->facts[i].traced_by,
                                   .exec_start_ns = self->exec_start_ns,
                                   .compute_start_ns = self->exec_start_ns};
    if (self->instance->model->decoupled)
      error = TRITONBACKEND_ResponseFactoryNew(&self->open[i].factory, self->requests[i]);
    else
      self->open[i].request = self->requests[i];
  }
  if (error == NULL &&
      !request_table_add(&self->instance->requests, self->open, self->count, self->handles))
    error = backend_error_no_memory("a batch");
  if (error != NULL)
    delete_factories(self);
  for (uint32_t i = 0; error == NULL && i < self->count; i++)
    self->facts[i].handle = self->handles[i];
  if (error == NULL) {
    memset(self->held, 1, self->count * sizeof *self->held);
    execution_set_state(self, EXECUTION_OPEN);
  }
  return error;
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
