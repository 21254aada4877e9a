// SPDX-License-Identifier: Apache-2.0
// A socket, plain or under TLS. One thread.
#ifndef NEREID_FRONTEND_GRPC_TRANSPORT_CONN_WIRE_H
#define NEREID_FRONTEND_GRPC_TRANSPORT_CONN_WIRE_H

#include "base/error.h"
#include "frontend/common/net/tls.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

typedef struct tls_context tls_context;

typedef struct conn_wire {
  int fd;                         // owned
  struct gnutls_session_int *tls; // NULL: plain
  bool handshaking;
  bool wants_output; // of a handshake: it waits for the socket to take something
} conn_wire;

// What all connections of a listener share. *result is NULL when the identity is empty: no TLS.
error *tls_context_new(const tls_identity *identity, tls_context **result);
void tls_context_free(tls_context *tls); // NULL is allowed

// Owns the socket from here on, whatever happens. `tls` NULL: plain.
bool conn_wire_init(conn_wire *w, int socket_fd, tls_context *tls);
// Nothing more is sent: the client gets to know. Input may still come.
void conn_wire_end(conn_wire *w);
void conn_wire_fini(conn_wire *w);

// As read and writev: the number of bytes, 0 at the end, -1 with EAGAIN when there is nothing to do
// now, and -1 otherwise. A handshake goes on inside of them.
ssize_t conn_wire_read(conn_wire *w, void *to, size_t size);
ssize_t conn_wire_write(conn_wire *w, const struct iovec *parts, int count);

// Bytes that are read from the socket and not taken: it will not say that it is readable.
bool conn_wire_holds_input(const conn_wire *w);

#endif
