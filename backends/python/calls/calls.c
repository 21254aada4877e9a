// The calls of one worker: their life and replies, and which file deals with which kind.
#include "calls/calls_internal.h"

#include "backend_error.h"
#include "backend_log.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void calls_count_init(calls_count *self)
{
  self->live = 0;
  pthread_mutex_init(&self->lock, NULL);
  pthread_cond_init(&self->none, NULL);
}

void calls_count_fini(calls_count *self)
{
  pthread_cond_destroy(&self->none);
  pthread_mutex_destroy(&self->lock);
}

static void count_live(calls_count *self, bool more)
{
  pthread_mutex_lock(&self->lock);
  assert(more || self->live > 0);
  self->live = more ? self->live + 1 : self->live - 1;
  if (self->live == 0)
    pthread_cond_broadcast(&self->none);
  pthread_mutex_unlock(&self->lock);
}

void calls_count_await_none(calls_count *self)
{
  pthread_mutex_lock(&self->lock);
  while (self->live > 0)
    pthread_cond_wait(&self->none, &self->lock);
  pthread_mutex_unlock(&self->lock);
}

TRITONSERVER_Error *calls_new(TRITONSERVER_Server *server, calls_count *count, const char *where,
                              worker_link *link, wait_node *node, calls **made)
{
  calls *self = calloc(1, sizeof *self);
  if (self == NULL || (self->where = strdup(where)) == NULL) {
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
  self->server = server;
  self->count = count;
  self->node = node;
  self->link = worker_link_ref(link);
  count_live(count, true);
  *made = self;
  return NULL;
}

calls *calls_ref(calls *self)
{
  atomic_fetch_add_explicit(&self->references, 1, memory_order_relaxed);
  return self;
}

void calls_unref(calls *self)
{
  if (atomic_fetch_sub_explicit(&self->references, 1, memory_order_acq_rel) != 1)
    return;
  calls_count *count = self->count;
  backend_error_log(TRITONSERVER_ResponseAllocatorDelete(self->allocator),
                    "delete a response allocator");
  worker_link_unref(self->link);
  pthread_mutex_destroy(&self->lock);
  free(self->where);
  free(self);
  count_live(count, false);
}

void calls_end(calls *self)
{
  if (self == NULL)
    return;
  pthread_mutex_lock(&self->lock);
  self->ended = true;
  infer_calls_cancel_all(self);
  pthread_mutex_unlock(&self->lock);
  wait_graph_forget(self->node);
  metric_table_fini(&self->metrics);
  calls_unref(self);
}

bool calls_are_under_way(calls *self)
{
  pthread_mutex_lock(&self->lock);
  bool any = self->inferences != NULL || self->model_calls > 0;
  pthread_mutex_unlock(&self->lock);
  return any;
}

bool calls_have_ended(calls *self)
{
  pthread_mutex_lock(&self->lock);
  bool ended = self->ended;
  pthread_mutex_unlock(&self->lock);
  return ended;
}

void calls_reply(calls *self, const channel_message *call, uint64_t value)
{
  channel_message reply = {
      .kind = call->kind, .id = call->id, .flags = REPLY_FINAL, .value = value};
  if (!calls_have_ended(self))
    worker_link_reply(self->link, &reply);
}

void calls_reply_part(calls *self, const channel_message *call, control_part_write *write,
                      const void *what)
{
  channel_message reply = {.kind = call->kind, .id = call->id, .flags = REPLY_FINAL};
  if (calls_have_ended(self))
    return;
  if (!control_part_make(self->link, write, what, &reply)) {
    BACKEND_LOG_ERROR("%s: no memory for the reply to a call", self->where);
    reply.flags |= REPLY_FAILED;
  }
  worker_link_reply(self->link, &reply);
}

static void write_error(wire_writer *writer, const void *what)
{
  wire_error_write(writer, (TRITONSERVER_Error *)what);
}

void calls_reply_error(calls *self, const channel_message *call, TRITONSERVER_Error *error_owned)
{
  if (error_owned == NULL) {
    calls_reply(self, call, 0);
    return;
  }
  channel_message reply = {.kind = call->kind, .id = call->id, .flags = REPLY_FINAL | REPLY_FAILED};
  if (!calls_have_ended(self)) {
    if (!control_part_make(self->link, write_error, error_owned, &reply))
      BACKEND_LOG_ERROR("%s: no memory for an error: %s", self->where,
                        TRITONSERVER_ErrorMessage(error_owned));
    worker_link_reply(self->link, &reply);
  }
  TRITONSERVER_ErrorDelete(error_owned);
}

char *calls_text(wire_reader *reader)
{
  size_t length;
  const char *text = wire_get_text(reader, &length);
  if (reader->bad || memchr(text, '\0', length) != NULL) {
    reader->bad = true;
    return NULL;
  }
  char *copy = malloc(length + 1);
  if (copy == NULL) {
    reader->bad = true;
    return NULL;
  }
  memcpy(copy, text, length);
  copy[length] = '\0';
  return copy;
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

bool calls_handle(calls *self, request_table *requests, const channel_message *message)
{
  if (message->kind < CALL_INFER || message->kind > CALL_INFER_WAIT)
    return false;
  control_part control;
  if (!control_part_copy(&control, self->link, message))
    control.reader.bad = true; // each kind of call answers for it
  if (message->kind == CALL_INFER)
    infer_call_start(self, requests, message, &control.reader);
  else if (message->kind == CALL_INFER_CANCEL)
    infer_call_cancel(self, message->id);
  else if (message->kind == CALL_INFER_WAIT)
    infer_call_wait(self, message, &control.reader);
  else if (message->kind < CALL_MODEL_LOAD)
    handle_metric(self, message, &control.reader);
  else
    model_call_start(self, message, &control.reader);
  control_part_fini(&control);
  return true;
}
