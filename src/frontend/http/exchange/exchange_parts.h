// SPDX-License-Identifier: Apache-2.0
// What the files of an exchange share: its life (exchange.c), admission by its headers
// (admission.c), its replies (reply.c), and its line in the access log (access_entry.c). Loop
// thread.
#ifndef NEREID_FRONTEND_HTTP_EXCHANGE_EXCHANGE_PARTS_H
#define NEREID_FRONTEND_HTTP_EXCHANGE_EXCHANGE_PARTS_H

#include "frontend/http/exchange/exchange.h"

// What the first line says.
typedef struct request_line {
  const char *method;
  const char *path;
  const char *version;
} request_line;

// The only way to another phase: asserts that it may follow.
void exchange_enter(exchange *x, exchange_phase phase);

// A moment of the inference's trace, if it has one.
void exchange_record_moment(const exchange *x, const char *name);

static inline bool exchange_has_body(const exchange *x)
{
  return x->headers.chunked || x->headers.content_length.value > 0;
}

// Finds the route and makes room for the body. False when the exchange has failed.
bool exchange_admit(exchange *x, const request_line *line);

// libmicrohttpd reads another request than was sent.
void exchange_fail_as_misread(exchange *x);

// Hands the reply to libmicrohttpd.
enum MHD_Result exchange_send_reply(exchange *x);

// Releases a reply that libmicrohttpd has, or that is not sent.
void exchange_drop_reply(exchange *x);

// Sends the failure while the request is still coming, and gives the connection up (MHD_NO).
enum MHD_Result exchange_refuse(exchange *x);

// What the access log says of a request, gathered while it lives; nothing without an access log.
// The first line and the headers are there.
void access_entry_begin(exchange *x, const request_line *line);
// The request is over with this status: the line is written.
void access_entry_end(const exchange *x, unsigned status);

// A request that has no exchange was refused: its line has no more than its status.
void access_entry_refused(const connection *c, unsigned status);

// exchange_calls.refuse
bool exchange_refuse_connection(connection *c, unsigned status);

#endif
