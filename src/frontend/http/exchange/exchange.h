// SPDX-License-Identifier: Apache-2.0
// One request and its reply, from the headers to the last byte sent. Referenced by its connection
// until the reply is sent, by the core while it has the request, and by a reply that sends tensors
// from its memory. All calls are made on the connection's loop thread unless they say otherwise.
#ifndef NEREID_FRONTEND_HTTP_EXCHANGE_EXCHANGE_H
#define NEREID_FRONTEND_HTTP_EXCHANGE_EXCHANGE_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/refcount.h"
#include "frontend/common/net/body.h"
#include "frontend/common/net/jobs.h"
#include "frontend/http/exchange/routing.h"
#include "frontend/http/transport/connections.h"
#include "frontend/http/transport/headers.h"
#include "frontend/http/transport/loop.h"
#include "nereid/nereid.h"
#include "triton/core/tritonserver.h"

#include <jansson.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct listener listener;
typedef struct inference inference; // frontend/common/infer/inference.h
typedef struct exchange exchange;
typedef struct access_entry access_entry;

#define EXCHANGE_ARENA_BYTES 6144
#define SHORT_REPLY_BYTES    (14u << 10) // with its head, a record of TLS

typedef enum exchange_phase {
  EXCHANGE_RECEIVING, // headers are here, the body is coming
  EXCHANGE_DROPPING,  // refused; the rest of a small body is read and dropped
  EXCHANGE_WAITING,   // the core or a job has it, the connection is suspended
  EXCHANGE_REPLIED,   // the reply is made
} exchange_phase;

// Continues an exchange on its loop thread after exchange_resume.
typedef void (*exchange_step)(exchange *x);

struct exchange {
  listener *http;
  loop *loop;
  connection *connection;
  struct MHD_Connection *mhd;
  refcount references;
  exchange_phase phase;

  unsigned method;  // route_method bit; 0: none that a route has
  bool is_http_1_0; // not 1.1
  bool is_head;     // HEAD: the reply has no body
  const route *route;
  const char *parameters[PARAMETER_COUNT]; // decoded; "" when the path has none
  int64_t version;                         // the same as a number, -1 when the path has none
  request_headers headers;
  const char *remote_reason; // why its client may not bring code, else NULL; static
  body body;
  json_t *json;            // it as a tree, where exchange_read_json was called
  uint64_t received_bytes; // of the body, as sent

  exchange_step next;       // what a resumed exchange does; NULL: it replies
  void (*job)(exchange *x); // what a job thread does; see exchange_run_job
  struct job queued;        // the same for jobs.h
  inference *inference;     // of an infer request, else NULL
  NEREID_ModelWait *wait;   // of a question about a model that had to be loaded; else NULL
  access_entry *access;     // exchange_parts.h; NULL without an access log
  uint64_t received_ns;     // when the headers were there; 0 while nothing is traced

  unsigned status;            // of the reply
  uint64_t reply_bytes;       // of the reply's body, so far as it is made
  struct MHD_Response *reply; // NULL until made
  buffer text;                // of the reply, where it is not the core's
  size_t reserved;            // from the budget, for the text
  bool is_short;              // head and body go out in one system call
  bool last;                  // the connection is closed after the reply
  const char *failure;        // the reply's text when it is an error, in the arena
  const char *failure_header; // one more header of that reply, or NULL
  const char *failure_value;

  arena arena;
  char arena_memory[]; // EXCHANGE_ARENA_BYTES
};

// --- Life

// For the loops and the connections.
extern const exchange_calls exchange_calls_of_loops;

void exchange_ref(exchange *x);   // any thread
void exchange_unref(exchange *x); // any thread

// --- For handlers

// Suspends the connection until exchange_resume; `next` then runs on the loop thread.
void exchange_suspend(exchange *x, exchange_step next);
void exchange_resume(exchange *x); // any thread, once for each suspension

// Runs `job` on a thread for its kind and then `next` on the loop
// thread: for calls that may block, and for work that would hold the loop's other clients up.
// `next` is NULL where `job` made the reply.
void exchange_run_job(exchange *x, job_kind kind, void (*job)(exchange *x), exchange_step next);

// Runs `job`, unless the exchange is over, and then `next`: here where it is work on few bytes,
// else as exchange_run_job does.
void exchange_run(exchange *x, size_t bytes, job_kind kind, void (*job)(exchange *x),
                  exchange_step next);

// It has failed, or its client left while it was suspended: no reply is to be made, and it must not
// be suspended again.
bool exchange_is_over(const exchange *x);

// The body as a JSON object, which lives as long as the exchange. NULL for an empty body and for
// JSON of another kind, which says as little, as in Triton. Errors: it is no JSON, or too large to
// be built. Once for an exchange.
error *exchange_read_json(exchange *x, json_t **object);
// The same; false: the exchange has failed.
bool exchange_parse_json(exchange *x, json_t **object);

// --- Replies: the first one made counts

// {"error": "<text>"} with `status`. Returns false, for callers that say so to theirs.
bool exchange_fail(exchange *x, unsigned status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// The same from an error, with the status that its code stands for; releases it. The first of each
// pair does nothing and returns false for NULL.
bool exchange_fail_if(exchange *x, TRITONSERVER_Error *failure_owned);
bool exchange_fail_if_error(exchange *x, error *failure_owned);
// The same from what became of the body; returns false for BODY_OK.
bool exchange_fail_if_body(exchange *x, body_result why);
// The status of an error, and its text as in a failed reply.
unsigned exchange_status_of(TRITONSERVER_Error_Code code);
void exchange_append_failure(buffer *json, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// One more header for the failure that was just made; both texts are static.
void exchange_fail_header(exchange *x, const char *name, const char *value);

// 200 without a body, unless it has failed.
void exchange_reply_ok(exchange *x);
// `status` without a body.
void exchange_reply_empty(exchange *x, unsigned status);
// 200 with x->text, which is JSON, unless it has failed.
void exchange_reply_json(exchange *x);
// 200 with a reply that the handler made (x->reply_bytes is set by the handler); NULL: it could
// not, which is 503 if it said nothing else.
void exchange_reply_with(exchange *x, struct MHD_Response *response_owned);

// Counts x->text, if it is long, as work for the budget. False: there is no room for it.
bool exchange_count_text(exchange *x);
// The same once, where the text is to be the reply. False: the exchange has failed.
bool exchange_text_fits(exchange *x);
void exchange_drop_text(exchange *x);

// --- libmicrohttpd's responses, made whole or not at all: a reply that lacks a header for want of
// memory would be read wrongly

// Adds a header. NULL when there is no response or memory is short; the response is gone then.
struct MHD_Response *response_with(struct MHD_Response *response_owned, const char *name,
                                   const char *value);
// Adds the load report that the request's fields ask for, if there is one.
struct MHD_Response *response_with_load(struct MHD_Response *response_owned, const exchange *x);

// A response whose body has that many bytes, which are all there, is going to be made.
void exchange_note_body(exchange *x, size_t size);

// A response that is sent from x->text. NULL when memory is short.
struct MHD_Response *response_of_text(exchange *x, const char *content_type);

#endif
