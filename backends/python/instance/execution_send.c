// SPDX-License-Identifier: Apache-2.0
// Gives an execution to the worker: its requests become one WORK_EXECUTE. See execution.h.
#include "instance/execution.h"

#include "backend_error.h"
#include "base/clock.h"
#include "codec/protocol.h"

#include <assert.h>

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
    execution_drop(self, culprit, error);
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
  execution_set_state(self, EXECUTION_SENT);
  if (!channel_send(self->link->channel, CHANNEL_WORK, work))
    channel_close(self->link->channel);
}

// A worker other than the one that it must go to does not know its sequences.
bool execution_send(execution *self)
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
    execution_set_state(self, EXECUTION_ENDED);
  return self->state == EXECUTION_SENT;
}
