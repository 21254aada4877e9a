// SPDX-License-Identifier: Apache-2.0
// The state of a model's process, shared by the files of src/host.
#ifndef NEREID_HOST_STATE_H
#define NEREID_HOST_STATE_H

#include "base/buffer.h"
#include "base/list.h"
#include "base/refcount.h"
#include "channel.h"
#include "core/instance.h"
#include "core/model.h"
#include "core/model_instances.h"
#include "isolated/isolated_protocol.h"
#include "request/request.h"
#include "request/response_allocator.h"

#include <pthread.h>

typedef struct model_host model_host;

// Kept cancellations of unknown requests: more than a batch has requests.
#define HOST_EARLY_CANCELS 1024

// A request from the server. References: until it is released, until it is fully answered, and
// while its execution runs.
typedef struct host_request {
  refcount references;
  model_host *host;
  uint64_t number;           // the server's
  request *request;          // NULL once it is released
  response_factory *factory; // until it is fully answered
  _Atomic bool apart;        // an event went over CHANNEL_CALLS: the later ones must follow there
  list_node node;            // in the host's list, until it is fully answered
} host_request;

// An instance and the thread that executes it.
typedef struct host_instance {
  model_host *host;
  instance *instance;
  uint32_t index;
  channel *ring;
  pthread_t thread;
  host_request **requests; // of the batch
  request **batch;         // the same for the backend, which may change the array
  uint32_t capacity;
  uint64_t block; // the batch's block in the server's region
  buffer events;  // of the batch so far
  buffer lent;    // offsets of the blocks that the last answer names
} host_instance;

struct model_host {
  int socket;
  channel *channel; // the model's: its regions contain all blocks
  server *server;
  model *model;
  struct host_gpus *gpus; // NULL: no instance on a GPU
  instance_reports reports;
  struct TRITONSERVER_ResponseAllocator allocator;
  host_instance *instances; // in the model's order
  pthread_mutex_t lock;     // guards all below
  pthread_cond_t changed;
  list requests;
  list loans; // blocks named by messages on CHANNEL_CALLS, until the server has finished with these
  bool unreferenced;
  uint64_t early_cancels[HOST_EARLY_CANCELS]; // numbers; a new one replaces the oldest
  size_t early_cancel_count;                  // total so far
};

// ---- host_request.c: requests, on an instance's thread

// Makes the requests of a batch from its control part: `count` of them are in h->requests and
// h->batch, even after an error.
error *host_requests_read(host_instance *h, wire_reader *reader, uint32_t *count);
void host_request_unref(host_request *r);
// Takes back a request that the backend has not released.
void host_request_take_back(host_request *r);
// The server cancelled the request. Its batch may still be in transit, because it comes on another
// ring. Main thread.
void host_request_cancel(model_host *host, uint64_t number);

// ---- host_instance.c

// Starts the thread of instance `name` and takes over its channel.
error *host_instance_start(model_host *host, const char *name, channel *ring_owned);
void host_instance_stop(host_instance *h);
// Called after an idle time: gives idle memory back. False: the server still reads the blocks of
// the last answer. The instance's thread.
bool host_instance_rest(host_instance *h);

// ---- host_events.c: tells the server what backends do. Any thread.

extern const instance_reports host_reports;
extern const struct TRITONSERVER_ResponseAllocator host_allocator;

void host_on_response(TRITONSERVER_InferenceResponse *r, uint32_t flags, void *of);
void host_on_release(TRITONSERVER_InferenceRequest *r, uint32_t flags, void *of);

// Between the two, this thread's events go to the instance's `events`.
void host_events_begin(host_instance *h);
void host_events_end(void);

// Sends the message with `content` in a block. False: no memory, or the server is gone. Appends the
// block's offset to `lent`; the caller releases these blocks when the server has finished.
bool host_send(model_host *host, channel *to, channel_ring ring, channel_message *message,
               const buffer *content, buffer *lent);
// Releases the blocks and empties the list.
void host_release_lent(model_host *host, buffer *lent);
void host_collect_loans(model_host *host);

// Ends the process, which cannot continue; the server logs why.
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

// Includes the NUL.
static inline void put_text(buffer *to, const char *text)
{
  size_t size = strlen(text) + 1;
  put_u32(to, (uint32_t)size);
  buffer_append(to, text, size);
}

// The result of a message: success, or an error's code and text. Frees the error.
void host_put_failure(buffer *to, error *e_owned);

#endif
