// SPDX-License-Identifier: Apache-2.0
// One inference over HTTP: from the body to a request of the core (infer_request.c), through the
// core and back (infer.c), and from its outputs to the reply (infer_response.c, stream.c).
#ifndef NEREID_FRONTEND_HTTP_SERVICE_HTTP_INFERENCE_H
#define NEREID_FRONTEND_HTTP_SERVICE_HTTP_INFERENCE_H

#include "base/container_of.h"
#include "frontend/common/infer/inference.h"

#include <stdbool.h>

typedef struct exchange exchange;
typedef struct http_inference http_inference;
typedef struct stream stream;

// What the routes differ in.
typedef struct infer_operation {
  // Turns the body into inputs, parameters and output choices of the request. False when the
  // exchange has failed.
  bool (*fill)(exchange *x, http_inference *i);
  // Turns the kept response into the reply; NULL: each response is an event of a stream.
  void (*reply)(exchange *x, http_inference *i);
  bool takes_decoupled; // else such models were refused
  bool has_timeout;     // its body may have one
} infer_operation;

// In the exchange's arena.
struct http_inference {
  inference life;
  exchange *exchange; // referenced while the core has the request
  const infer_operation *operation;
  stream *stream;                       // of a reply that is one
  uint64_t timeout_us;                  // 0: none, or not looked for
  TRITONSERVER_InferenceResponse *sent; // owned; what other replies send the outputs of
};

static inline http_inference *http_inference_of(inference *i)
{
  return container_of(i, http_inference, life);
}

// Members of infer_operation. Loop and worker threads.
// What has to be known of the model is in the request: chooses its version. An error: that one's
// transactions are not for this operation.
error *infer_choose_version(http_inference *i);

bool infer_fill_request(exchange *x, http_inference *i);
bool generate_fill_request(exchange *x, http_inference *i);
void infer_reply(exchange *x, http_inference *i);
void generate_reply(exchange *x, http_inference *i);

// --- A reply that is made while the model still answers: server-sent events, one for each
// response. Responses come from the backend's threads into a queue with a limit, so that no backend
// ever waits for a client; the loop takes one at a time, when the client has read what was before.

// In the exchange's arena; NULL when memory is short.
stream *stream_new(exchange *x);

// inference_hooks.respond
void stream_respond(inference *life, TRITONSERVER_InferenceResponse *response_owned, bool final);

// Makes the reply when the first response is there, which decides its status, and waits for that
// by suspending the connection. Loop thread.
void stream_begin(exchange *x);

#endif
