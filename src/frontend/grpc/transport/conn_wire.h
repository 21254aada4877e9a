// SPDX-License-Identifier: Apache-2.0
// A socket, plain or with TLS. One thread.
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
  bool wants_output; // a handshake waits until the socket takes bytes
} conn_wire;

// Shared by all connections of a listener. *result is NULL when the identity is empty: no TLS.
error *tls_context_new(const tls_identity *identity, tls_context **result);
void tls_context_free(tls_context *tls); // NULL is allowed

// Takes over the socket, even on failure. `tls` NULL: plain.
bool conn_wire_init(conn_wire *w, int socket_fd, tls_context *tls);
// Tells the client that nothing more is sent. Input may still come.
void conn_wire_end(conn_wire *w);
void conn_wire_fini(conn_wire *w);

// As read and writev, continuing a handshake: the number of bytes, 0 at the end, -1 with EAGAIN
// when the socket is not ready, else -1.
ssize_t conn_wire_read(conn_wire *w, void *to, size_t size);
ssize_t conn_wire_write(conn_wire *w, const struct iovec *parts, int count);

// Are there bytes that were read from the socket but not taken? The socket will not report them as
// readable.
bool conn_wire_holds_input(const conn_wire *w);

#endif
