// SPDX-License-Identifier: Apache-2.0
// The inside of a model's process, shared by the files of src/host.
#ifndef NEREID_HOST_STATE_H
#define NEREID_HOST_STATE_H

#include "base/buffer.h"
#include "base/list.h"
#include "base/refcount.h"
#include "channel.h"
#include "core/instance.h"
#include "core/model.h"
#include "core/model_instances.h"
#include "isolated/protocol.h"
#include "request/request.h"
#include "request/response_allocator.h"

#include <pthread.h>

typedef struct model_host model_host;

// Cancellations that are kept for requests which are not known: more than a batch has requests.
#define HOST_EARLY_CANCELS 1024

// A request that the server has given. Referenced until it is released, until it is answered in
// full, and while its execution runs.
typedef struct host_request {
  refcount references;
  model_host *host;
  uint64_t number;           // the server's
  request *request;          // NULL once it is released
  response_factory *factory; // alive until it is answered in full
  _Atomic bool apart; // something of it went over CHANNEL_CALLS: so does the rest, in its order
  list_node node;     // of the host's, until it is answered in full
} host_request;

// An instance and the thread that executes it.
typedef struct host_instance {
  model_host *host;
  instance *instance;
  uint32_t index;
  channel *ring;
  pthread_t thread;
  host_request **requests; // of the batch
  request **batch;         // the same for the backend, which may write to it
  uint32_t capacity;
  uint64_t block; // of the batch, in the server's region
  buffer events;  // of the batch so far
  buffer lent;    // offsets of blocks that the last answer names
} host_instance;

struct model_host {
  int socket;
  channel *channel; // the model's: its regions have all blocks
  server *server;
  model *model;
  struct host_gpus *gpus; // NULL: it runs on none
  instance_reports reports;
  struct TRITONSERVER_ResponseAllocator allocator;
  host_instance *instances; // as the model's
  pthread_mutex_t lock;     // guards what follows
  pthread_cond_t changed;
  list requests;
  list loans; // blocks that messages on CHANNEL_CALLS name, until the server is done with those
  bool unreferenced;
  uint64_t early_cancels[HOST_EARLY_CANCELS]; // numbers, the oldest is overwritten
  size_t early_cancel_count;                  // so many came
};

// ---- host_request.c: requests, on an instance's thread

// Makes the requests of a batch from its control part: `count` of them are in self->requests and
// self->batch, also after an error.
error *host_requests_read(host_instance *self, wire_reader *reader, uint32_t *count);
void host_request_unref(host_request *r);
// Takes back what the backend has not released.
void host_request_take_back(host_request *r);
// The server's request is cancelled; its batch may still be on its way, on another ring than the
// cancellation. Main thread.
void host_request_cancel(model_host *host, uint64_t number);

// ---- host_instance.c

// Starts the thread of the instance `name` on its channel, which is taken.
error *host_instance_start(model_host *host, const char *name, channel *ring_owned);
void host_instance_stop(host_instance *self);
// Nothing came for a while: gives idle memory back. False: the server is not done with the last
// answer, whose blocks it reads until then. The instance's thread.
bool host_instance_rest(host_instance *self);

// ---- host_events.c: what backends do, told to the server. Any thread.

extern const instance_reports host_reports;
extern const struct TRITONSERVER_ResponseAllocator host_allocator;

void host_on_response(TRITONSERVER_InferenceResponse *r, uint32_t flags, void *of);
void host_on_release(TRITONSERVER_InferenceRequest *r, uint32_t flags, void *of);

// From the first to the second, events of this thread go to the instance's `events`.
void host_events_begin(host_instance *self);
void host_events_end(void);

// Sends the message that names `content` in a block; false: no memory or the server is gone. The
// block is appended to `lent`, offsets that the caller releases once the server is done.
bool host_send(model_host *host, channel *to, channel_ring ring, channel_message *message,
               const buffer *content, buffer *lent);
// Releases the blocks and empties the list.
void host_release_lent(model_host *host, buffer *lent);
void host_collect_loans(model_host *host);

// The end of a process that cannot go on; the server tells why.
void host_give_up(const char *why) __attribute__((noreturn));

static inline void put_u8(buffer *to, uint8_t value)
{
  buffer_append(to, &value, sizeof(value));
}

static inline void put_u32(buffer *to, uint32_t value)
{
  buffer_append(to, &value, sizeof(value));
}

static inline void put_u64(buffer *to, uint64_t value)
{
  buffer_append(to, &value, sizeof(value));
}

// With its NUL.
static inline void put_text(buffer *to, const char *text)
{
  size_t size = strlen(text) + 1;
  put_u32(to, (uint32_t)size);
  buffer_append(to, text, size);
}

// A message's result: nothing, or an error's code and text. Frees the error.
void host_put_failure(buffer *to, error *e_owned);

#endif
