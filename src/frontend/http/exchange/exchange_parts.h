// SPDX-License-Identifier: Apache-2.0
// Shared by the files of an exchange: its life (exchange.c), admission by its headers
// (admission.c), its replies (reply.c), its access log line (access_entry.c). Loop thread.
#ifndef NEREID_FRONTEND_HTTP_EXCHANGE_EXCHANGE_PARTS_H
#define NEREID_FRONTEND_HTTP_EXCHANGE_EXCHANGE_PARTS_H

#include "frontend/http/exchange/exchange.h"

// The request's first line.
typedef struct request_line {
  const char *method;
  const char *path;
  const char *version;
} request_line;

// Changes the phase; asserts that the change is allowed.
void exchange_enter(exchange *x, exchange_phase phase);

// Records a moment in the inference's trace, if it is traced.
void exchange_record_moment(const exchange *x, const char *name);

static inline bool exchange_has_body(const exchange *x)
{
  return x->headers.chunked || x->headers.content_length.value > 0;
}

// Checks the headers, finds the route and makes room for the body. False when the exchange has
// failed.
bool exchange_admit(exchange *x, const request_line *line);

// Fails because libmicrohttpd reads another request than the scan.
void exchange_fail_as_misread(exchange *x);

// Gives the reply to libmicrohttpd.
enum MHD_Result exchange_send_reply(exchange *x);

// Releases a reply that libmicrohttpd has, or that will not be sent.
void exchange_drop_reply(exchange *x);

// Sends the failure while the body is still coming, and gives up the connection (MHD_NO).
enum MHD_Result exchange_refuse(exchange *x);

// Begins the access log's record of a request whose headers are complete. Without an access log
// these functions do nothing.
void access_entry_begin(exchange *x, const request_line *line);
// Writes the line of a request that is over.
void access_entry_end(const exchange *x, unsigned status);

// Writes a line with a status only, for a request that was refused before it had an exchange.
void access_entry_refused(const connection *c, unsigned status);

// exchange_calls.refuse
bool exchange_refuse_connection(connection *c, unsigned status);

#endif
