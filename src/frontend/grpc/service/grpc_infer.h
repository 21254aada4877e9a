// SPDX-License-Identifier: Apache-2.0
// An inference over gRPC: from a message to a request of the core, through the core, and from its
// responses to messages. ModelInfer has one inference, ModelStreamInfer any number
// (infer_stream.c). Referenced by its call, by the core while it has the request, and by each
// output.
#ifndef NEREID_FRONTEND_GRPC_SERVICE_GRPC_INFER_H
#define NEREID_FRONTEND_GRPC_SERVICE_GRPC_INFER_H

#include "base/arena.h"
#include "base/error.h"
#include "base/list.h"
#include "base/mpsc.h"
#include "base/refcount.h"
#include "frontend/common/infer/inference.h"
#include "frontend/grpc/call/grpc_message.h"
#include "frontend/grpc/codec/infer_request_proto.h"
#include "frontend/grpc/codec/infer_response_proto.h"
#include "frontend/grpc/codec/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INFERENCE_ARENA_BYTES 3072

typedef struct call call;
typedef struct grpc_inference grpc_inference;
typedef struct grpc_reply grpc_reply;

// An event for a stream's loop: a response of a decoupled model, or the core is done.
typedef struct stream_event {
  mpsc_node node;
  grpc_inference *inference;
  TRITONSERVER_InferenceResponse *response; // owned; NULL: an end without a response
  size_t cost;                              // in the connection's share, until the loop has it
  bool final;
  bool refused; // the budget has no room for the response: the stream is cut
} stream_event;

struct grpc_inference {
  inference life;
  call *call; // referenced
  refcount references;
  grpc_message *message;    // owned; inputs are slices of it
  size_t cost;              // of request and message, in the connection's share
  bool is_read;             // the message was read without an error
  bool wants_empty_final;   // in a stream: an end without a response is a message, too
  uint64_t began_ns;        // when its message was complete
  bool is_sending;          // its first reply was begun
  size_t bytes_out;         // of its replies
  error *failure;           // owned; set instead of a response
  infer_request_proto read; // the message, as read
  void (*filled)(call *c);  // called on the loop when the request is made

  // --- In a stream (infer_stream.c)
  list_node node;
  stream_event event; // queued when the core is done
  _Atomic bool lost;  // a response was lost for want of memory
  _Atomic bool drops; // responses are dropped: the stream is over, or is to be cut
  bool is_loose;      // decoupled: responses are sent as they come
  bool done;          // the core is done
  bool over;          // decoupled: its end was sent
  grpc_status status; // for the access log

  arena arena;
  char arena_memory[INFERENCE_ARENA_BYTES];
};

static inline grpc_inference *grpc_inference_of(inference *i)
{
  return container_of(i, grpc_inference, life);
}

// Takes over the message. NULL when memory is short or the budget is full: then the message stays
// the caller's, and the call must end with this text.
#define GRPC_INFERENCE_REFUSED "the server has no memory left for requests, try again later"
grpc_inference *grpc_inference_new(call *c, grpc_message *message_owned,
                                   const inference_hooks *hooks);
// For inference_hooks.
void grpc_inference_ref(inference *life);
void grpc_inference_unref(inference *life);

// Makes a request of the core from the message, on a worker's thread if it is long, then calls
// `filled` on the loop's thread. c->job.data is then the inference; its `failure` says whether
// there is a request. Loop thread.
void grpc_inference_fill(grpc_inference *i, void (*filled)(call *c));

// Gives the request to the core. After an error there will be no response. *at_once: the core is
// done, and the hook `done` is not called. Loop thread.
error *grpc_inference_submit(grpc_inference *i, bool *at_once);

// Makes the message of a response, which it takes over; or returns the response's error. Loop
// thread.
error *grpc_inference_make_reply(grpc_inference *i, TRITONSERVER_InferenceResponse *response_owned,
                                 bool streamed, bool final, grpc_reply **reply);

// Adds to an access log line. Loop thread.
void grpc_inference_describe(const grpc_inference *i, access_record *record);

// A message_begins for inferences, with the call as its context: puts long messages for models on
// GPUs into pinned memory. Loop thread.
void grpc_infer_message_begins(void *call_pointer, grpc_message *m, slice first);

// ModelInfer and ModelStreamInfer.
void grpc_handle_model_infer(call *c);
void grpc_handle_model_stream_infer(call *c);

#endif
