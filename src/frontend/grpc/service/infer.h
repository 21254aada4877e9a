// One inference over gRPC: from a message to a request of the core, through the core, and its
// responses as messages. ModelInfer has one; ModelStreamInfer has any number (infer_stream.c).
// Referenced by its call, by the core while it has the request, and by each output.
#ifndef NEREID_FRONTEND_GRPC_INFER_H
#define NEREID_FRONTEND_GRPC_INFER_H

#include "base/arena.h"
#include "base/error.h"
#include "base/refcount.h"
#include "frontend/common/infer/request_users.h"
#include "frontend/common/observe/access_times.h"
#include "frontend/common/tensor/infer_tensors.h"
#include "frontend/grpc/call/access_note.h"
#include "frontend/grpc/call/message.h"
#include "frontend/grpc/call/outgoing.h"
#include "frontend/grpc/codec/infer_response_proto.h"
#include "frontend/trace/trace.h"
#include "triton/core/tritonserver.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define INFERENCE_ARENA_BYTES 3072

typedef struct call call;
typedef struct grpc_inference grpc_inference;

// A response on its way from the thread that made it to the loop.
typedef struct answer {
  struct answer *next;
  TRITONSERVER_InferenceResponse *response; // owned; NULL: an end without a response
  bool final;
} answer;

struct grpc_inference {
  call *call; // referenced
  refcount references;
  message *message; // owned; inputs are slices of it
  TRITONSERVER_InferenceRequest *request;
  const char *model_name; // in the arena, as the next one; "" before the message is read
  const char *id;
  int64_t model_version; // as asked for; -1: any
  bool decoupled;
  bool wants_empty_final; // of a stream: the end without a response is a message, too
  infer_tensors tensors;
  uint64_t began_ns; // when its message was complete
  size_t bytes_out;  // of its replies
  access_times times;
  grpc_status status;  // of a stream's request, for the access log
  trace_record *trace; // NULL: it is not traced

  request_users users;
  // What must come before the loop looks at it: the final response, and where the client's memory
  // is in use the request's release. Of a decoupled model it looks at each response.
  _Atomic int awaited;
  _Atomic int handover;      // see grpc_inference_start
  _Atomic(answer *) answers; // newest first
  answer only;               // of a model that is not decoupled
  _Atomic uint32_t response_count;
  _Atomic bool lost;                // memory was short for a response
  void (*heard)(grpc_inference *i); // there are answers; any thread
  void (*filled)(call *c);          // what the loop does once the request is made

  grpc_inference *next;      // of a stream's list
  grpc_inference *previous;  // the same, where it is decoupled
  grpc_inference *next_news; // of a stream's news
  _Atomic bool in_news;
  bool done;       // of a stream: its answer may go
  bool over;       // of a stream, decoupled: nothing more comes
  size_t reserved; // from the budget
  error *failure;  // owned; of a stream: instead of an answer

  arena arena;
  char arena_memory[INFERENCE_ARENA_BYTES];
};

// Owns the message. NULL when memory is short, or the server has as many requests as it may: then
// the message stays the caller's, and the call ends with this text.
#define GRPC_INFERENCE_REFUSED "the server has no memory left for requests, try again later"
grpc_inference *grpc_inference_new(call *c, message *message_owned,
                                   void (*heard)(grpc_inference *i));
void grpc_inference_ref(grpc_inference *i);   // any thread
void grpc_inference_unref(grpc_inference *i); // any thread

// Reads the message into a request of the core, here or, if it is long, on a worker's thread; then
// calls `filled` on the loop's thread, which finds the inference in c->job.data, whose `failure`
// says whether it can be. Loop thread.
void grpc_inference_fill(grpc_inference *i, void (*filled)(call *c));

// Gives the request to the core. An error: there will be no answer. *at_once: the answer is there
// already, and `heard` is not called. Loop thread.
error *grpc_inference_submit(grpc_inference *i, bool *at_once);

// Tells the core that nobody waits any more. Any thread that holds a reference.
void grpc_inference_cancel(grpc_inference *i);

// The answers that came since the last time, oldest first.
answer *grpc_inference_take_answers(grpc_inference *i);
// Frees one; its response must have been taken out or is deleted.
void grpc_inference_free_answer(grpc_inference *i, answer *a);
// Those that nobody takes: outputs of a response refer to the inference, which has the response.
void grpc_inference_drop_answers(grpc_inference *i);

// Makes the message of a response, which is moved; or gives its error. Loop thread.
error *grpc_inference_make_reply(grpc_inference *i, TRITONSERVER_InferenceResponse *response_owned,
                                 bool streamed, bool final, outgoing **reply);

// ModelInfer and ModelStreamInfer.
void grpc_handle_model_infer(call *c);
void grpc_handle_model_stream_infer(call *c);

#endif
