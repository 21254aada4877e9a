// A reply that is made while the model still answers: server-sent events, one for each response.
// Responses come from the backend's threads into a queue with a limit, so that no backend ever
// waits for a client; the loop takes one at a time, when the client has read what was before.
#ifndef NEREID_FRONTEND_HTTP_SERVICE_STREAM_H
#define NEREID_FRONTEND_HTTP_SERVICE_STREAM_H

#include "triton/core/tritonserver.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct exchange exchange;
typedef struct stream stream;

// Bytes of responses that wait for a client. One response more and the request is cancelled: the
// client gets what waits, then an event with an error.
#define STREAM_MAX_UNREAD_BYTES (64u << 20)
// What a response counts beside its outputs: the objects that it is made of.
#define STREAM_RESPONSE_BYTES 1024

// Two references: of the inference, until the final response, and of the reply. NULL when memory
// is short.
stream *stream_new(exchange *x);
void stream_unref(stream *s);

// Takes a response on (NULL: an end without one). Any thread.
void stream_respond(stream *s, TRITONSERVER_InferenceResponse *response_owned, bool final);

// Makes the reply when the first response is there, which decides its status, and waits for that
// by suspending the connection. Gives the reply's reference to it. Loop thread.
void stream_begin(exchange *x);

// There will be no reply: gives up its reference. Loop thread.
void stream_abandon(stream *s);

#endif
