// A counted channel, and the replies that wait for room in it.
#include "process/link.h"

#include "backend_error.h"
#include "backend_log.h"
#include "codec/protocol.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
  MAX_KEPT = 1 << 16
};

struct worker_link {
  atomic_uint references;
  channel *channel;
  uint64_t question;
  pthread_mutex_t lock; // guards what follows
  channel_message *kept;
  size_t kept_from; // kept[kept_from .. kept_to) wait to be sent
  size_t kept_to;
  size_t kept_room;
};

// Address space only, so as much as the machine has memory is never too little.
static size_t region_size(void)
{
  const size_t most = (size_t)64 << 30;
  long pages = sysconf(_SC_PHYS_PAGES);
  long page_size = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_size <= 0 || (size_t)pages > most / (size_t)page_size)
    return most;
  return (size_t)pages * (size_t)page_size;
}

TRITONSERVER_Error *worker_link_new(size_t shared_most, worker_link **made)
{
  worker_link *self = calloc(1, sizeof *self);
  if (self == NULL)
    return backend_error_no_memory("a channel to a worker");
  int failure = channel_new(region_size(), &self->channel);
  if (failure != 0) {
    free(self);
    return backend_error(TRITONSERVER_ERROR_UNAVAILABLE,
                         "cannot make a channel to a Python worker: %s", strerror(failure));
  }
  channel_limit(self->channel, shared_most);
  atomic_init(&self->references, 1);
  pthread_mutex_init(&self->lock, NULL);
  *made = self;
  return NULL;
}

worker_link *worker_link_ref(worker_link *self)
{
  atomic_fetch_add_explicit(&self->references, 1, memory_order_relaxed);
  return self;
}

void worker_link_unref(worker_link *self)
{
  if (self == NULL || atomic_fetch_sub_explicit(&self->references, 1, memory_order_acq_rel) != 1)
    return;
  channel_free(self->channel);
  pthread_mutex_destroy(&self->lock);
  free(self->kept);
  free(self);
}

channel *worker_link_channel(worker_link *self)
{
  return self->channel;
}

uint64_t *worker_link_question(worker_link *self)
{
  return &self->question;
}

bool control_part_copy(control_part *self, const worker_link *link, const channel_message *message)
{
  *self = (control_part){0};
  if (message->size == 0)
    return true;
  if (message->size > MAX_PROTOCOL_CONTROL)
    return false;
  const void *theirs = channel_other(link->channel, message->offset, message->size);
  if (theirs == NULL || (self->bytes = malloc(message->size)) == NULL)
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

static bool make_room(worker_link *self)
{
  if (self->kept_to < self->kept_room)
    return true;
  if (self->kept_from > 0) {
    memmove(self->kept, self->kept + self->kept_from,
            (self->kept_to - self->kept_from) * sizeof *self->kept);
    self->kept_to -= self->kept_from;
    self->kept_from = 0;
    return true;
  }
  size_t room = self->kept_room == 0 ? 64 : self->kept_room * 2;
  channel_message *kept =
      room > MAX_KEPT ? NULL : reallocarray(self->kept, room, sizeof *self->kept);
  if (kept == NULL)
    return false;
  self->kept = kept;
  self->kept_room = room;
  return true;
}

// True when nothing is left.
static bool send_kept(worker_link *self)
{
  while (self->kept_from < self->kept_to) {
    if (!channel_try_send(self->channel, CHANNEL_REPLIES, &self->kept[self->kept_from]))
      return false;
    self->kept_from++;
  }
  self->kept_from = self->kept_to = 0;
  return true;
}

void worker_link_reply(worker_link *self, const channel_message *reply)
{
  pthread_mutex_lock(&self->lock);
  bool sent = send_kept(self) && channel_try_send(self->channel, CHANNEL_REPLIES, reply);
  bool kept = !sent && make_room(self);
  if (kept)
    self->kept[self->kept_to++] = *reply;
  pthread_mutex_unlock(&self->lock);
  if (sent || kept)
    return;
  BACKEND_LOG_ERROR("a Python worker does not read its replies; it is cut off");
  channel_close(self->channel);
}

bool worker_link_flush(worker_link *self)
{
  pthread_mutex_lock(&self->lock);
  bool left = !send_kept(self);
  pthread_mutex_unlock(&self->lock);
  return left;
}
