// SPDX-License-Identifier: Apache-2.0
// The object that the open calls of a worker share, and the dispatch of calls by kind. The
// listener's thread.
#include "calls/calls.h"

#include "backend_error.h"

#include <stdlib.h>
#include <string.h>

// ---- life

static TRITONSERVER_Error *calls_new(python_instance *instance, worker_link *link, calls **made)
{
  calls *self = calloc(1, sizeof(*self));
  if (self == NULL || (self->where = strdup(worker_name(instance->worker))) == NULL) {
    free(self);
    return backend_error_no_memory("a worker's calls");
  }
  TRITONSERVER_Error *error = infer_allocator_new(&self->allocator);
  if (error != NULL) {
    free(self->where);
    free(self);
    return error;
  }
  refcount_init(&self->references);
  pthread_mutex_init(&self->lock, NULL);
  list_init(&self->inferences);
  self->server = instance->model->server;
  self->backend = instance->model->backend;
  self->instance = instance;
  self->link = worker_link_ref(link);
  python_backend_ref(self->backend);
  *made = self;
  return NULL;
}

static void calls_end(calls *self)
{
  atomic_store(&self->ended, true);
  pthread_mutex_lock(&self->lock);
  infer_calls_cancel_all(self);
  pthread_mutex_unlock(&self->lock);
  wait_graph_forget(&self->instance->node);
  metric_table_fini(&self->metrics);
  calls_unref(self);
}

static bool calls_are_under_way(calls *self)
{
  LOCK_SCOPE(&self->lock);
  return !list_is_empty(&self->inferences) || self->model_calls > 0;
}

// ---- dispatch

static bool calls_handle(calls *self, const channel_message *message)
{
  static call_handler *const handlers[] = {
      [CALL_INFER] = infer_call_start,
      [CALL_INFER_CANCEL] = infer_call_cancel,
      [CALL_INFER_WAIT] = infer_call_wait,
      [CALL_FAMILY_NEW... CALL_METRIC_VALUE] = metric_call,
      [CALL_MODEL_LOAD... CALL_MODEL_IS_READY] = model_control_start,
  };
  if (message->kind >= sizeof(handlers) / sizeof(*handlers) || handlers[message->kind] == NULL)
    return false;
  control_part control;
  control_part_copy(&control, self->link, message); // each handler deals with a bad control part
  handlers[message->kind](self, message, &control.reader);
  control_part_fini(&control);
  return true;
}

const instance_calls CALLS = {.begin = calls_new,
                              .handle = calls_handle,
                              .are_under_way = calls_are_under_way,
                              .end = calls_end};
