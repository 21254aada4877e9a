// SPDX-License-Identifier: Apache-2.0
// nghttp2's callbacks, and the settings of a session. Loop threads.
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

// TOLD: tells the client which calls are accepted, and that no more will be.
void session_say_goodbye(grpc_connection *c);

#endif
