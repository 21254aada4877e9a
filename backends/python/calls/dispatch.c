// What a worker asks of the server: which file deals with which kind of call, and the life of the
// object that they share. The listener's thread.
#include "calls/calls.h"

#include "backend_error.h"
#include "calls/calls_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static TRITONSERVER_Error *calls_new(python_instance *instance, worker_link *link, calls **made)
{
  calls *self = calloc(1, sizeof *self);
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
  atomic_init(&self->references, 1);
  pthread_mutex_init(&self->lock, NULL);
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
  pthread_mutex_lock(&self->lock);
  self->ended = true;
  infer_calls_cancel_all(self);
  pthread_mutex_unlock(&self->lock);
  wait_graph_forget(&self->instance->node);
  metric_table_fini(&self->metrics);
  calls_unref(self);
}

static bool calls_are_under_way(calls *self)
{
  pthread_mutex_lock(&self->lock);
  bool any = self->inferences != NULL || self->model_calls > 0;
  pthread_mutex_unlock(&self->lock);
  return any;
}

static void handle_metric(calls *self, const channel_message *message, wire_reader *control)
{
  metric_result result = {0};
  TRITONSERVER_Error *error = metric_call(&self->metrics, message, control, &result);
  if (error != NULL)
    calls_reply_error(self, message, error);
  else if (message->kind == CALL_METRIC_VALUE)
    calls_reply_part(self, message, metric_value_write, &result.value);
  else
    calls_reply(self, message, result.number);
}

static bool calls_handle(calls *self, const channel_message *message)
{
  if (message->kind < CALL_INFER || message->kind > CALL_INFER_WAIT)
    return false;
  control_part control;
  if (!control_part_copy(&control, self->link, message))
    control.reader.bad = true; // each kind of call answers for it
  if (message->kind == CALL_INFER)
    infer_call_start(self, message, &control.reader);
  else if (message->kind == CALL_INFER_CANCEL)
    infer_call_cancel(self, message->id);
  else if (message->kind == CALL_INFER_WAIT)
    infer_call_wait(self, message, &control.reader);
  else if (message->kind < CALL_MODEL_LOAD)
    handle_metric(self, message, &control.reader);
  else
    model_control_start(self, message, &control.reader);
  control_part_fini(&control);
  return true;
}

const instance_calls CALLS = {.begin = calls_new,
                              .handle = calls_handle,
                              .are_under_way = calls_are_under_way,
                              .end = calls_end};
