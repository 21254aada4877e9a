// One inference over HTTP: from the body to a request of the core (infer_request.c), through the
// core and back (infer.c), and from its outputs to the reply (infer_response.c).
#ifndef NEREID_FRONTEND_HTTP_SERVICE_HTTP_INFERENCE_H
#define NEREID_FRONTEND_HTTP_SERVICE_HTTP_INFERENCE_H

#include "base/container_of.h"
#include "frontend/common/infer/inference.h"

#include <stdbool.h>

typedef struct exchange exchange;
typedef struct http_inference http_inference;
typedef struct stream stream; // stream.h

// What the routes differ in.
typedef struct infer_operation {
  // Turns the body into inputs, parameters and output choices of the request. False when the
  // exchange has failed.
  bool (*fill)(exchange *x, http_inference *i);
  // Turns the kept response into the reply; NULL: each response is an event of a stream (stream.h).
  void (*reply)(exchange *x, http_inference *i);
  bool takes_decoupled; // else such models were refused
} infer_operation;

// In the exchange's arena.
struct http_inference {
  inference life;
  exchange *exchange; // referenced while the core has the request
  const infer_operation *operation;
  stream *stream; // for the operation; one reference each for life and reply
};

static inline http_inference *http_inference_of(inference *i)
{
  return container_of(i, http_inference, life);
}

// Members of infer_operation. Loop and worker threads.
bool infer_fill_request(exchange *x, http_inference *i);
bool generate_fill_request(exchange *x, http_inference *i);
void infer_reply(exchange *x, http_inference *i);
void generate_reply(exchange *x, http_inference *i);

#endif
