// What a worker asks of the server: which file deals with which kind of call, the object that those
// under way share, and replies. The listener's thread; replies: any.
#include "calls/calls.h"

#include "backend_error.h"
#include "backend_log.h"

#include <stdlib.h>
#include <string.h>

// ---- life

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

calls *calls_ref(calls *self)
{
  refcount_take(&self->references);
  return self;
}

void calls_unref(calls *self)
{
  if (!refcount_drop(&self->references))
    return;
  python_backend *backend = self->backend;
  backend_error_log(TRITONSERVER_ResponseAllocatorDelete(self->allocator),
                    "delete a response allocator");
  worker_link_unref(self->link);
  pthread_mutex_destroy(&self->lock);
  free(self->where);
  free(self);
  python_backend_unref(backend);
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

// ---- which file

static bool calls_handle(calls *self, const channel_message *message)
{
  static call_handler *const handlers[] = {
      [CALL_INFER] = infer_call_start,
      [CALL_INFER_CANCEL] = infer_call_cancel,
      [CALL_INFER_WAIT] = infer_call_wait,
      [CALL_FAMILY_NEW... CALL_METRIC_VALUE] = metric_call,
      [CALL_MODEL_LOAD... CALL_MODEL_IS_READY] = model_control_start,
  };
  if (message->kind >= sizeof handlers / sizeof *handlers || handlers[message->kind] == NULL)
    return false;
  control_part control;
  control_part_copy(&control, self->link, message); // each kind of call answers for a bad one
  handlers[message->kind](self, message, &control.reader);
  control_part_fini(&control);
  return true;
}

const instance_calls CALLS = {.begin = calls_new,
                              .handle = calls_handle,
                              .are_under_way = calls_are_under_way,
                              .end = calls_end};

// ---- replies

void calls_send(calls *self, const channel_message *reply)
{
  if (!atomic_load(&self->ended))
    worker_link_reply(self->link, reply);
}

static channel_message reply_to(const channel_message *call)
{
  return (channel_message){.kind = call->kind, .id = call->id, .flags = REPLY_FINAL};
}

void calls_reply(calls *self, const channel_message *call, uint64_t value)
{
  channel_message reply = reply_to(call);
  reply.value = value;
  calls_send(self, &reply);
}

void calls_reply_part(calls *self, const channel_message *call, control_part_write *write,
                      const void *what)
{
  channel_message reply = reply_to(call);
  if (!control_part_make(self->link, write, what, &reply)) {
    BACKEND_LOG_ERROR("%s: no memory for the reply to a call", self->where);
    reply.flags |= REPLY_FAILED;
  }
  calls_send(self, &reply);
}

void calls_send_error(calls *self, channel_message reply, control_part_write *write,
                      TRITONSERVER_Error *error_owned)
{
  if (!control_part_make(self->link, write, error_owned, &reply))
    BACKEND_LOG_ERROR("%s: no memory for an error: %s", self->where,
                      TRITONSERVER_ErrorMessage(error_owned));
  calls_send(self, &reply);
  TRITONSERVER_ErrorDelete(error_owned);
}

void calls_reply_error(calls *self, const channel_message *call, TRITONSERVER_Error *error_owned)
{
  channel_message reply = reply_to(call);
  reply.flags |= REPLY_FAILED;
  calls_send_error(self, reply, wire_error_write, error_owned);
}

char *calls_text(wire_reader *reader)
{
  size_t length;
  const char *text = wire_get_text(reader, &length);
  char *copy = reader->bad || memchr(text, '\0', length) != NULL ? NULL : strndup(text, length);
  reader->bad = copy == NULL;
  return copy;
}
