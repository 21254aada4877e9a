// SPDX-License-Identifier: Apache-2.0
// An inference over HTTP: from the body to the core's request (infer_request.c), through the core
// (infer.c), and from the outputs to the reply (infer_response.c, http_stream.c).
#ifndef NEREID_FRONTEND_HTTP_SERVICE_HTTP_INFERENCE_H
#define NEREID_FRONTEND_HTTP_SERVICE_HTTP_INFERENCE_H

#include "base/container_of.h"
#include "frontend/common/infer/inference.h"

#include <stdbool.h>

typedef struct exchange exchange;
typedef struct http_inference http_inference;
typedef struct stream stream;

// The differences between the routes.
typedef struct infer_operation {
  // Reads the body into the request's inputs, parameters and output choices. False when the
  // exchange has failed.
  bool (*fill)(exchange *x, http_inference *i);
  // Makes the reply of the kept response. NULL: each response is an event of a stream.
  void (*reply)(exchange *x, http_inference *i);
  bool takes_decoupled; // else decoupled models are refused
  bool has_timeout;     // the body may have a timeout
} infer_operation;

// In the exchange's arena.
struct http_inference {
  inference life;
  exchange *exchange; // referenced while the core has the request
  const infer_operation *operation;
  stream *stream;                       // NULL unless the reply is a stream
  uint64_t timeout_us;                  // 0: none, or not read yet
  TRITONSERVER_InferenceResponse *sent; // owned; the reply sends this response's outputs
};

static inline http_inference *http_inference_of(inference *i)
{
  return container_of(i, http_inference, life);
}

// Chooses the version, once the request has all that this depends on. An error if the operation
// does not take the version's transactions. These functions run on loop and worker threads.
error *infer_choose_version(http_inference *i);

bool infer_fill_request(exchange *x, http_inference *i);
bool generate_fill_request(exchange *x, http_inference *i);
void infer_reply(exchange *x, http_inference *i);
void generate_reply(exchange *x, http_inference *i);

// --- A reply made while the model still answers: server-sent events, one for each response.
// Backend threads put responses into a bounded queue, so that no backend waits for a client; the
// loop takes them when the client has read the earlier ones.

// In the exchange's arena; NULL when memory is short.
stream *stream_new(exchange *x);

// inference_hooks.respond
void stream_respond(inference *life, TRITONSERVER_InferenceResponse *response_owned, bool final);

// Makes the reply when the first response is there, which decides its status; until then the
// connection is suspended. Loop thread.
void stream_begin(exchange *x);

#endif
