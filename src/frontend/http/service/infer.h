// One inference over HTTP: from the body to a request of the core (infer_request.c), through the
// core and back (infer.c), and from its outputs to the reply (infer_response.c).
#ifndef NEREID_FRONTEND_HTTP_INFER_H
#define NEREID_FRONTEND_HTTP_INFER_H

#include "frontend/common/infer/request_users.h"
#include "frontend/common/tensor/infer_tensors.h"
#include "triton/core/tritonserver.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct exchange exchange;
typedef struct inference inference;
typedef struct stream stream; // stream.h

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
  request_users users;
  _Atomic int handover; // see await_answer in infer.c

  infer_tensors tensors;

  TRITONSERVER_InferenceResponse *response; // owned; the first one
  _Atomic uint32_t response_count;
};

// Header time: the model must exist and answer each request once, for generate it must exist only.
// Fails the exchange otherwise.
void infer_admit(exchange *x);
void generate_admit(exchange *x);

// Tells the core that nobody waits any more. Any thread that holds a reference to the exchange.
void inference_cancel(inference *i);

// Gives back what the inference of an exchange holds beyond the arena. When the exchange ends.
void inference_fini(inference *i);

// Members of infer_way. Loop and worker threads.
bool infer_fill_request(exchange *x, inference *i);
bool generate_fill_request(exchange *x, inference *i);
void infer_reply(exchange *x, inference *i);
void generate_reply(exchange *x, inference *i);

#endif
