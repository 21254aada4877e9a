// One inference over HTTP: from the body to a request of the core (infer_request.c), through the
// core and back (infer.c), and from its outputs to the reply (infer_output.c, infer_response.c);
// with tensors in the client's memory (infer_shared.c).
#ifndef NEREID_FRONTEND_HTTP_INFER_H
#define NEREID_FRONTEND_HTTP_INFER_H

#include "base/arena.h"
#include "base/error.h"
#include "frontend/protocol/infer_request_json.h"
#include "frontend/protocol/infer_response_json.h"
#include "frontend/protocol/shared_memory.h"
#include "triton/core/tritonserver.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct exchange exchange;
typedef struct inference inference;
typedef struct stream stream; // stream.h

// How one output goes out.
typedef struct output_choice {
  const char *name; // NULL: any output that the request does not list
  bool binary;
  uint64_t classification; // how many classes; 0: the tensor itself
  const shared_span *span; // where it goes; NULL: into the reply
} output_choice;

// An input that is copied out of the client's memory before the core sees it.
typedef struct shared_copy {
  void *to;
  const void *from;
  size_t size;
} shared_copy;

// An output's buffer, made by the allocator, released with the response.
typedef struct output_buffer {
  exchange *exchange; // referenced; small buffers are in its arena
  const output_choice *choice;
  void *memory;    // a block, NULL when in the exchange's arena
  size_t size;     // of the block
  size_t reserved; // from the budget
  bool separate;   // this object has memory of its own, too
} output_buffer;

// What the routes differ in.
typedef struct infer_way {
  // Turns the body into inputs, parameters and output choices of i->request. False when the
  // exchange has failed.
  bool (*fill)(exchange *x, inference *i);
  // Turns i->response into the reply; NULL: each response is an event of a stream (stream.h).
  void (*reply)(exchange *x, inference *i);
  bool takes_decoupled; // else such models were refused
} infer_way;

struct inference {
  const infer_way *way;
  stream *stream;          // referenced until the final response; NULL for a single reply
  stream *stream_of_reply; // the same, as long as the reply is not made
  bool decoupled;          // any number of responses, maybe after the request was released
  exchange *exchange;      // referenced while the core has the request
  TRITONSERVER_InferenceRequest *request;
  // What must come before the reply: the final response, and where the client's memory is in use
  // the request's release: with the reply that memory is the client's again.
  _Atomic int awaited;
  // The core, those who cancel, and while a decoupled model may answer, its responses; the last one
  // deletes the request, nobody joins at 0.
  _Atomic uint32_t request_users;
  _Atomic int handover;       // see submit() in infer.c
  _Atomic bool submitted;     // the core has it: it can be cancelled
  _Atomic bool cancel_wanted; // the client left; whoever sees both flags cancels

  output_choice fallback; // for outputs that the request does not list
  output_choice *choices; // in the arena
  bool has_rows;          // the first dimension of outputs is the batch; where they are classified
  size_t choice_count;

  shared_span *spans; // in the arena, in use until the core is done
  size_t span_count;
  shared_copy *copies; // in the arena, to be made
  size_t copy_count;
  size_t copy_bytes;

  TRITONSERVER_InferenceResponse *response; // owned; the first one
  _Atomic uint32_t response_count;
  _Atomic size_t text_bytes; // of outputs to be written as text, classified or packed
};

// Header time: the model must exist and answer each request once, for generate it must exist only.
// Fails the exchange otherwise.
void infer_admit(exchange *x);
void generate_admit(exchange *x);

// Tells the core that nobody waits any more. Any thread that holds a reference to the exchange.
void inference_cancel(inference *i);

// Gives back what the inference of an exchange holds beyond the arena. When the exchange ends.
void inference_fini(inference *i);

// Tensors in the client's memory. The first three are false when the exchange has failed.
bool infer_reserve_shared(exchange *x, inference *i, const infer_request_json *json);
bool infer_add_shared_input(exchange *x, inference *i, const infer_json_input *input);
bool infer_choose_shared_output(exchange *x, inference *i, const infer_json_output *output,
                                output_choice *choice);
size_t infer_shared_bytes(const infer_request_json *json);
// Makes the copies; any thread, one at a time.
void infer_copy_shared(exchange *x);
// False when a region was not all there: the exchange has failed.
bool infer_check_shared(exchange *x, const inference *i);
// Nobody reads or writes the client's memory any more.
void infer_release_shared(inference *i);

// The allocator for all outputs of a listener.
error *infer_make_allocator(TRITONSERVER_ResponseAllocator **allocator);

// Members of infer_way. Loop and worker threads.
bool infer_fill_request(exchange *x, inference *i);
bool generate_fill_request(exchange *x, inference *i);
void infer_reply(exchange *x, inference *i);
void generate_reply(exchange *x, inference *i);

// Reads a response; lists are in the arena, the rest are views of the response. The response's own
// error is returned like any other.
TRITONSERVER_Error *infer_read_response(TRITONSERVER_InferenceResponse *response, arena *a,
                                        infer_response_json *json);

#endif
