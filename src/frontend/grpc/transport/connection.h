// SPDX-License-Identifier: Apache-2.0
// A client's connection: socket, TLS, HTTP/2 session (nghttp2), unsent output. Loop thread, unless
// a function says otherwise. Referenced by its loop until it is closed, and by its calls, which may
// outlive it.
#ifndef NEREID_FRONTEND_GRPC_TRANSPORT_CONNECTION_H
#define NEREID_FRONTEND_GRPC_TRANSPORT_CONNECTION_H

#include "frontend/grpc/transport/connection_state.h"

#include <sys/socket.h>

// Takes over an accepted, non-blocking socket, even on failure: NULL.
grpc_connection *grpc_connection_open(grpc_loop *l, int socket_fd,
                                      const struct sockaddr_storage *address);

// The socket is readable or writable.
void grpc_connection_readable(grpc_connection *c);
void grpc_connection_writable(grpc_connection *c);

// Writes all that can be sent to the socket, and closes the connection if it is over.
void grpc_connection_flush(grpc_connection *c);

// Asks the client to leave; its calls go on.
void grpc_connection_leave(grpc_connection *c);

// Adds or removes an open stream.
void grpc_connection_add(grpc_connection *c, grpc_stream *s);
void grpc_connection_remove(grpc_stream *s);

// A stream begins to receive a message, so its timeout must be checked.
void grpc_connection_stream_receives(grpc_connection *c);

// The time `timeout_ms` after `since`; UINT64_MAX for a timeout of 0.
uint64_t connection_due(uint64_t since, uint64_t timeout_ms);

// Closes the socket and ends the calls. The object stays until the loop's pass is over.
void grpc_connection_close(grpc_connection *c);

void grpc_connection_ref(grpc_connection *c);   // any thread
void grpc_connection_unref(grpc_connection *c); // any thread

#endif
