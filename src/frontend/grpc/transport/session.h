// SPDX-License-Identifier: Apache-2.0
// What HTTP/2 tells a connection: nghttp2's callbacks and the settings of a session. Loop threads.
#ifndef NEREID_FRONTEND_GRPC_TRANSPORT_SESSION_H
#define NEREID_FRONTEND_GRPC_TRANSPORT_SESSION_H

#include "base/error.h"

#include <nghttp2/nghttp2.h>
#include <stdbool.h>

typedef struct grpc_connection grpc_connection;

// Callbacks and limits that all sessions of a listener share.
error *session_make_shared(nghttp2_session_callbacks **callbacks, nghttp2_option **options);
void session_free_shared(nghttp2_session_callbacks *callbacks, nghttp2_option *options);

// Begins HTTP/2 on a connection. False when memory is short.
bool session_begin(grpc_connection *c);

// Counts `cost` frames that do nothing for anybody. A client that sends many of them is sent away.
void session_charge(grpc_connection *c, unsigned cost);

// LEAVING: tells the client which calls are taken yet, and that there will be no more.
void session_say_goodbye(grpc_connection *c);

// Sends a client away that does what none does in good faith.
void session_send_away(grpc_connection *c, const char *why);

#endif
