// SPDX-License-Identifier: Apache-2.0
// References to the shared object of calls, and replies. Any thread.
#include "calls/calls.h"

#include "backend_error.h"
#include "backend_log.h"

#include <stdlib.h>
#include <string.h>

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
