// SPDX-License-Identifier: Apache-2.0
// A counted channel, and the replies that wait for room in it.
#include "process/worker_link.h"

#include "backend_error.h"
#include "backend_log.h"
#include "base/cleanup.h"
#include "codec/protocol.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_KEPT (1 << 16)

typedef struct kept_reply {
  list_node node;
  channel_message message;
} kept_reply;

// This is only address space, so the size of the machine's memory always suffices.
static size_t region_size(void)
{
  const size_t most = (size_t)64 << 30;
  const size_t all = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
  return all < most ? all : most;
}

TRITONSERVER_Error *worker_link_new(size_t shared_most, int socket, worker_link **made)
{
  worker_link *self = calloc(1, sizeof(*self));
  if (self == NULL)
    return backend_error_no_memory("a channel to a worker");
  int failure = channel_new(region_size(), &self->channel);
  if (failure != 0) {
    free(self);
    return backend_error_unavailable("cannot make a channel to a Python worker: %s",
                                     strerror(failure));
  }
  channel_limit(self->channel, shared_most);
  self->socket = socket;
  refcount_init(&self->references);
  pthread_mutex_init(&self->lock, NULL);
  list_init(&self->kept);
  *made = self;
  return NULL;
}

worker_link *worker_link_ref(worker_link *self)
{
  refcount_take(&self->references);
  return self;
}

void worker_link_unref(worker_link *self)
{
  if (self == NULL || !refcount_drop(&self->references))
    return;
  list_foreach_safe (kept_reply, reply, node, &self->kept)
    free(reply);
  device_share_retire(atomic_load(&self->devices));
  free(self->end_cause);
  channel_free(self->channel);
  cleanup_close(&self->socket);
  pthread_mutex_destroy(&self->lock);
  free(self);
}

device_share *worker_link_devices(worker_link *self)
{
  LOCK_SCOPE(&self->lock);
  device_share *devices = atomic_load(&self->devices);
  if (devices == NULL) {
    devices = device_share_new(self->socket);
    atomic_store(&self->devices, devices);
  }
  return devices;
}

bool worker_link_release(worker_link *self, uint64_t block)
{
  device_share *devices = atomic_load_explicit(&self->devices, memory_order_acquire);
  if (devices != NULL) // first, because the block may be reused at once
    device_share_release(devices, block);
  return channel_release(self->channel, block);
}

bool control_part_copy(control_part *self, const worker_link *link, const channel_message *message)
{
  *self = (control_part){0};
  if (message->size == 0)
    return true;
  const void *theirs = message->size > MAX_PROTOCOL_CONTROL
                           ? NULL
                           : channel_other(link->channel, message->offset, message->size);
  self->reader.bad = theirs == NULL || (self->bytes = malloc(message->size)) == NULL;
  if (self->reader.bad)
    return false;
  memcpy(self->bytes, theirs, message->size);
  self->reader = (wire_reader){.at = self->bytes, .end = self->bytes + message->size};
  return true;
}

void control_part_fini(control_part *self)
{
  free(self->bytes);
  *self = (control_part){0};
}

bool control_part_make(worker_link *link, control_part_write *write, const void *what,
                       channel_message *message)
{
  wire_writer writer = {0};
  write(&writer, what);
  uint64_t offset;
  if (!channel_allocate(link->channel, writer.size, &offset))
    return false;
  writer = (wire_writer){.to = channel_own(link->channel, offset), .room = writer.size};
  write(&writer, what);
  message->offset = offset;
  message->size = writer.size;
  return true;
}

// True: none are left.
static bool send_kept(worker_link *self)
{
  list_foreach_safe (kept_reply, reply, node, &self->kept) {
    if (!channel_try_send(self->channel, CHANNEL_REPLIES, &reply->message))
      return false;
    list_remove(&reply->node);
    free(reply);
    self->kept_count--;
  }
  return true;
}

static bool keep(worker_link *self, const channel_message *message)
{
  kept_reply *reply = self->kept_count < MAX_KEPT ? calloc(1, sizeof(*reply)) : NULL;
  if (reply == NULL)
    return false;
  reply->message = *message;
  list_append(&self->kept, &reply->node);
  self->kept_count++;
  return true;
}

void worker_link_reply(worker_link *self, const channel_message *reply)
{
  pthread_mutex_lock(&self->lock);
  bool taken = (send_kept(self) && channel_try_send(self->channel, CHANNEL_REPLIES, reply)) ||
               keep(self, reply);
  pthread_mutex_unlock(&self->lock);
  if (taken)
    return;
  BACKEND_LOG_ERROR("a Python worker does not read its replies; it is cut off");
  channel_close(self->channel);
}

bool worker_link_flush(worker_link *self)
{
  LOCK_SCOPE(&self->lock);
  return !send_kept(self);
}
