// SPDX-License-Identifier: Apache-2.0
// One request and its reply, from the headers to the last byte sent. References: its connection
// until the reply is sent, the core while it has the request, and a reply that sends tensors from
// the exchange's memory. Functions are called on the connection's loop thread unless their comments
// say otherwise.
#ifndef NEREID_FRONTEND_HTTP_EXCHANGE_EXCHANGE_H
#define NEREID_FRONTEND_HTTP_EXCHANGE_EXCHANGE_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/refcount.h"
#include "frontend/common/net/body.h"
#include "frontend/common/net/jobs.h"
#include "frontend/http/exchange/exchange_routing.h"
#include "frontend/http/transport/connections.h"
#include "frontend/http/transport/headers.h"
#include "frontend/http/transport/http_loop.h"
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
#define SHORT_REPLY_BYTES    (14u << 10) // with its head, one TLS record

typedef enum exchange_phase {
  EXCHANGE_RECEIVING, // the headers are complete, the body is coming
  EXCHANGE_DROPPING,  // refused; a small body's rest is read and dropped
  EXCHANGE_WAITING,   // the core or a job has it, the connection is suspended
  EXCHANGE_REPLIED,   // the reply is made
} exchange_phase;

// Continues an exchange on its loop thread, after exchange_resume.
typedef void (*exchange_step)(exchange *x);

struct exchange {
  listener *http;
  loop *loop;
  connection *connection;
  struct MHD_Connection *mhd;
  refcount references;
  exchange_phase phase;

  unsigned method;  // route_method bit; 0: a method without routes
  bool is_http_1_0; // not 1.1
  bool is_head;     // HEAD: the reply has no body
  const route *route;
  const char *parameters[PARAMETER_COUNT]; // decoded; "" when the path has none
  int64_t version;                         // the version as a number, -1 when the path has none
  request_headers headers;
  const char *remote_reason; // why the client may not bring code, else NULL; static
  body body;
  json_t *json;            // the body as a tree, after exchange_read_json
  uint64_t received_bytes; // of the body, as sent

  exchange_step next;       // run after exchange_resume; NULL: send the reply
  void (*job)(exchange *x); // run by a job thread; see exchange_run_job
  struct job queued;        // queues `job`
  inference *inference;     // NULL for other routes; set before cancel() may read it
  NEREID_ModelWait *wait;   // a control request's wait for its model, else NULL
  access_entry *access;     // exchange_parts.h; NULL without an access log
  uint64_t received_ns;     // when the headers were complete; 0 while nothing is traced

  unsigned status;            // of the reply
  uint64_t reply_bytes;       // of the reply's body, as far as it is made
  struct MHD_Response *reply; // NULL until made
  buffer text;                // the reply's text, if the front end makes one
  size_t reserved;            // from the budget, for `text`
  bool is_short;              // head and body go out in one system call
  bool last;                  // the connection closes after the reply
  const char *failure;        // the error reply's text, in the arena; NULL: no error
  const char *failure_header; // one more header of the error reply, or NULL
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

// Suspends the connection until exchange_resume; then `next` runs on the loop thread.
void exchange_suspend(exchange *x, exchange_step next);
void exchange_resume(exchange *x); // any thread, once for each suspension

// Runs `job` on a job thread of this kind, then `next` on the loop: for calls that may block, and
// work that would delay the loop's other clients. `next` is NULL if `job` makes the reply.
void exchange_run_job(exchange *x, job_kind kind, void (*job)(exchange *x), exchange_step next);

// Runs `job`, unless the exchange is over, and then `next`: here if `bytes` are few, else as
// exchange_run_job does.
void exchange_run(exchange *x, size_t bytes, job_kind kind, void (*job)(exchange *x),
                  exchange_step next);

// The exchange has failed, or its client left during a suspension: it must not get another reply
// nor be suspended again.
bool exchange_is_over(const exchange *x);

// The loop has no other connection now. Any thread.
bool exchange_is_alone(const exchange *x);

// Reads the body as a JSON object, which lives as long as the exchange. NULL for an empty body and
// for other JSON, as in Triton. Errors: no JSON, or too large a tree. Once per exchange.
error *exchange_read_json(exchange *x, json_t **object);
// The same; false when the exchange has failed.
bool exchange_parse_json(exchange *x, json_t **object);

// --- Replies. The first one made counts.

// Fails with {"error": "<text>"} and `status`. Always returns false, for the caller to return.
bool exchange_fail(exchange *x, unsigned status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// Fails with an error's text and status, and releases it; returns true. Does nothing for NULL;
// returns false.
bool exchange_fail_if(exchange *x, TRITONSERVER_Error *failure_owned);
bool exchange_fail_if_error(exchange *x, error *failure_owned);
// The same for the result of a body function; BODY_OK is no failure.
bool exchange_fail_if_body(exchange *x, body_result why);
// The status for an error code; and an error's text as JSON.
unsigned exchange_status_of(TRITONSERVER_Error_Code code);
void exchange_append_failure(buffer *json, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// Adds a header to the failure that was just made; both texts live as long as the exchange.
void exchange_fail_header(exchange *x, const char *name, const char *value);

// 200 without a body, unless the exchange has failed.
void exchange_reply_ok(exchange *x);
// `status` without a body.
void exchange_reply_empty(exchange *x, unsigned status);
// 200 with x->text, which is JSON, unless the exchange has failed.
void exchange_reply_json(exchange *x);
// 200 with the handler's response, whose size the handler set in x->reply_bytes. NULL: 503, unless
// the exchange has failed already.
void exchange_reply_with(exchange *x, struct MHD_Response *response_owned);

// Counts a long x->text for the budget. False: the budget has no room.
bool exchange_count_text(exchange *x);
// The same for a text that becomes the reply, at most once. False: the exchange has failed.
bool exchange_text_fits(exchange *x);
void exchange_drop_text(exchange *x);

// --- libmicrohttpd's responses. They are made whole or not at all, because a client would misread
// a reply without one of its headers.

// Adds a header. If that fails, or the response is NULL, returns NULL and the response is freed.
struct MHD_Response *response_with(struct MHD_Response *response_owned, const char *name,
                                   const char *value);
// Adds the load report that the request asks for, if there is one.
struct MHD_Response *response_with_load(struct MHD_Response *response_owned, const exchange *x);

// Notes that the reply's body has `size` bytes, all in memory.
void exchange_note_body(exchange *x, size_t size);

// Makes a response that is sent from x->text. NULL when memory is short.
struct MHD_Response *response_of_text(exchange *x, const char *content_type);

#endif
