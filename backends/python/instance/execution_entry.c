// SPDX-License-Identifier: Apache-2.0
// The functions by which the server executes: one execution with all waits, or executions ahead
// (backend_extension.h), which begin while earlier ones are open. A fast model's executions ahead
// are sent behind the worker's current work, so that the worker need not wait for the next. In a
// crowd both sides sleep instead of polling.
#include "instance/execution.h"

#include "backend_error.h"
#include "backend_extension.h"
#include "base/clock.h"

#define MAX_EXECUTIONS 8  // given to a worker, including the one that it runs
#define CROWDED_FOR    16 // executions that count as crowded: a crowded one, and those after it

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

// ---- executions ahead

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
