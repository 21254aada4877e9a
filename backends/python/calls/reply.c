// The object of a worker's calls, which those under way share, and replies. Any thread.
#include "calls/calls_internal.h"

#include "backend_error.h"
#include "backend_log.h"

#include <stdlib.h>
#include <string.h>

calls *calls_ref(calls *self)
{
  atomic_fetch_add_explicit(&self->references, 1, memory_order_relaxed);
  return self;
}

void calls_unref(calls *self)
{
  if (atomic_fetch_sub_explicit(&self->references, 1, memory_order_acq_rel) != 1)
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
