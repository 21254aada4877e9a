// SPDX-License-Identifier: Apache-2.0
// Moves the bytes of a TLS session in place of GnuTLS's own functions, for the sake of handshakes.
// While one waits for its client, libmicrohttpd takes the connection for one that is ready, again
// and again, and does not wait for its socket: so the loop must know whether anything moved, and be
// woken by the socket. And a client that waits for an acknowledgement of its last step gets one at
// once: else Nagle's algorithm holds its first request back for 40 ms. Loop thread.
#ifndef NEREID_FRONTEND_HTTP_TRANSPORT_TLS_WIRE_H
#define NEREID_FRONTEND_HTTP_TRANSPORT_TLS_WIRE_H

#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <stdint.h>

// What a loop shares with the sessions of its connections.
typedef struct tls_loop {
  uint64_t moves; // calls that moved bytes
  int epoll_fd;   // wakes the loop
} tls_loop;

typedef struct tls_wire {
  tls_loop *loop; // NULL: there is no session
  int socket_fd;
  bool in_handshake; // and so the socket is in the loop's epoll set
  bool acknowledged; // nothing came since
} tls_wire;

// Before the handshake; `wire` must live as long as the session moves bytes. False when the kernel
// has no room to watch the socket.
bool tls_wire_attach(tls_wire *wire, gnutls_session_t session, int socket_fd, tls_loop *loop);

// The socket of a session that sends HTTP: its wire is attached, or it were shut down by now.
int tls_wire_socket(gnutls_session_t session);

// The handshake is over: a request came, or the connection is closed. May be called again, and
// without a session.
void tls_wire_established(tls_wire *wire);

#endif
