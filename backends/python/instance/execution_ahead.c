// Executions ahead: begun while others have not ended. A fast model's are sent behind those that
// the worker has, so that it need not wait for the next one; in a crowd nobody looks for what
// comes, but sleeps. Whose the instance is: its thread, or a loop of the server.
#include "instance/execution.h"

#include "backend_error.h"

enum {
  MAX_EXECUTIONS = 8, // that a worker is given, with the one that it runs
  CROWDED_FOR = 16    // executions, after one that was some of many
};

static void record_duration(ahead_queue *self, uint64_t took_ns)
{
  const uint64_t before = atomic_load_explicit(&self->ewma_ns, memory_order_relaxed);
  // One that is slow is believed at once.
  const uint64_t now = before < took_ns ? took_ns : before - before / 8 + took_ns / 8;
  atomic_store_explicit(&self->ewma_ns, now, memory_order_relaxed);
}

// The slot, or a part in that of the executions before.
static bool try_begin(python_instance *instance, const execution *before, execution *self)
{
  if (before == NULL)
    return worker_try_acquire_slot(instance->worker, &self->link);
  if (before->link == NULL || !worker_share_slot(instance->worker, before->link))
    return false; // it comes after those before, and is sent when they have ended
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

TRITONSERVER_Error *python_instance_execute_begin(python_instance *instance,
                                                  TRITONBACKEND_Request **requests, uint32_t count,
                                                  bool *pending)
{
  ahead_queue *begun = &instance->ahead;
  execution *self;
  *pending = false;
  BACKEND_RETURN_IF_ERROR(execution_new(instance, requests, count, &self));
  if (self == NULL)
    return NULL;
  bool has_slot =
      try_begin(instance, container_of(list_last(&begun->executions), execution, begun), self);
  record_crowd(begun, self);
  *pending = !has_slot || execution_send(self);
  if (*pending)
    list_append(&begun->executions, &self->begun);
  else
    execution_end(self);
  return NULL;
}

uint32_t python_instance_max_executions(python_instance *instance)
{
  const execution *before = container_of(list_last(&instance->ahead.executions), execution, begun);
  const uint64_t usual = atomic_load_explicit(&instance->ahead.ewma_ns, memory_order_relaxed);
  const uint64_t most_us = (uint64_t)instance->model->backend->hand_ahead_us;
  if (before == NULL || before->link == NULL || usual == 0 || usual / 1000 > most_us ||
      !worker_may_share_slot(instance->worker, before->link))
    return 1;
  return MAX_EXECUTIONS;
}

void python_instance_execute_end(python_instance *instance, int64_t timeout_us, bool *pending)
{
  ahead_queue *begun = &instance->ahead;
  execution *self = container_of(list_first(&begun->executions), execution, begun);
  *pending = true;
  if (self->link == NULL && timeout_us >= 0)
    return; // the worker was not free, and this thread must not wait
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
