// What HTTP/2 tells a connection: nghttp2's callbacks and the settings of a session. Loop threads.
#ifndef NEREID_FRONTEND_GRPC_SESSION_H
#define NEREID_FRONTEND_GRPC_SESSION_H

#include "base/error.h"
#include <nghttp2/nghttp2.h>

#include <stdbool.h>

typedef struct call call;
typedef struct grpc_connection grpc_connection;

// Callbacks and limits that all sessions of a listener share.
error *session_make_shared(nghttp2_session_callbacks **callbacks, nghttp2_option **options);
void session_free_shared(nghttp2_session_callbacks *callbacks, nghttp2_option *options);

// Begins HTTP/2 on a connection. False when memory is short.
bool session_begin(grpc_connection *c);

// Counts `cost` frames that do nothing for anybody. A client that sends many of them is sent away.
void session_charge(grpc_connection *c, unsigned cost);

// Sends a client away that does what none does in good faith.
void session_send_away(grpc_connection *c, const char *why);

// --- Replies of a call; false when memory is short: the stream is reset then

// The header, and no message: only a status.
bool session_submit_status_only(call *c);
// The header; messages and, at last, the status follow from the call's queue.
bool session_submit_header(call *c);
// A message of that size is coming: the client need not wait for windows while it sends it.
void session_widen(call *c, size_t size);
// The queue has something more to send.
void session_resume(call *c);
// Ends the stream at once.
void session_reset(call *c, uint32_t http2_error);

#endif
