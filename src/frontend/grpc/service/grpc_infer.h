// SPDX-License-Identifier: Apache-2.0
// One inference over gRPC: from a message to a request of the core, through the core, and its
// responses as messages. ModelInfer has one; ModelStreamInfer has any number (infer_stream.c).
// Referenced by its call, by the core while it has the request, and by each output.
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

// What the loop of a stream is to see: a response of a decoupled model, or that the core is done.
typedef struct stream_event {
  mpsc_node node;
  grpc_inference *inference;
  TRITONSERVER_InferenceResponse *response; // owned; NULL: an end without a response
  bool final;
} stream_event;

struct grpc_inference {
  inference life;
  call *call; // referenced
  refcount references;
  grpc_message *message;    // owned; inputs are slices of it
  size_t cost;              // of both, as the connection counts them
  bool is_read;             // it could be
  bool wants_empty_final;   // of a stream: the end without a response is a message, too
  uint64_t began_ns;        // when its message was complete
  bool is_sending;          // the first of its replies was begun
  size_t bytes_out;         // of its replies
  error *failure;           // owned; instead of a response
  infer_request_proto read; // its message
  void (*filled)(call *c);  // what the loop does once the request is made

  // Of a stream (infer_stream.c).
  list_node node;
  stream_event event; // the core is done
  _Atomic bool lost;  // memory was short for a response
  bool is_loose;      // decoupled: its responses go as they come
  bool done;          // the core is done
  bool over;          // loose: its end is sent
  grpc_status status; // for the access log

  arena arena;
  char arena_memory[INFERENCE_ARENA_BYTES];
};

static inline grpc_inference *grpc_inference_of(inference *i)
{
  return container_of(i, grpc_inference, life);
}

// Owns the message. NULL when memory is short, or the server has as many requests as it may: then
// the message stays the caller's, and the call ends with this text.
#define GRPC_INFERENCE_REFUSED "the server has no memory left for requests, try again later"
grpc_inference *grpc_inference_new(call *c, grpc_message *message_owned,
                                   const inference_hooks *hooks);
// The hooks `ref` and `unref`.
void grpc_inference_ref(inference *life);
void grpc_inference_unref(inference *life);

// Reads the message into a request of the core, here or, if it is long, on a worker's thread; then
// calls `filled` on the loop's thread, which finds the inference in c->job.data, whose `failure`
// says whether it can be. Loop thread.
void grpc_inference_fill(grpc_inference *i, void (*filled)(call *c));

// Gives the request to the core. An error: there will be no response. *at_once: the core is done
// already, and the hook `done` is not called. Loop thread.
error *grpc_inference_submit(grpc_inference *i, bool *at_once);

// Makes the message of a response, which is moved; or gives its error. Loop thread.
error *grpc_inference_make_reply(grpc_inference *i, TRITONSERVER_InferenceResponse *response_owned,
                                 bool streamed, bool final, grpc_reply **reply);

// Adds to a line of the access log. Loop thread.
void grpc_inference_describe(const grpc_inference *i, access_record *record);

// A message of one of the two methods below begins: a long one for a model on a GPU is to be in
// pinned memory. A message_begins, with the call. Loop thread.
void grpc_infer_message_begins(void *call_pointer, grpc_message *m, slice first);

// ModelInfer and ModelStreamInfer.
void grpc_handle_model_infer(call *c);
void grpc_handle_model_stream_infer(call *c);

#endif
