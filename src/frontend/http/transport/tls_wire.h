// SPDX-License-Identifier: Apache-2.0
// Moves the bytes of a TLS session in place of GnuTLS's own functions, for the sake of handshakes.
// While one waits for its client, libmicrohttpd takes the connection for one that is ready, again
// and again, and does not wait for its socket: so the loop must know whether anything moved, and be
// woken by the socket. And a client that waits for an acknowledgement of its last step gets one at
// once: else Nagle's algorithm holds its first request back for 40 ms.
//
// A short reply is one record: libmicrohttpd sends its head and its body one by one over TLS, which
// would be two system calls and two records. Loop thread.
#ifndef NEREID_FRONTEND_HTTP_TRANSPORT_TLS_WIRE_H
#define NEREID_FRONTEND_HTTP_TRANSPORT_TLS_WIRE_H

#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

// What a loop shares with the sessions of its connections.
typedef struct tls_loop {
  uint64_t moves; // calls that moved bytes
  int epoll_fd;   // wakes the loop
} tls_loop;

// Where the reply is that goes out as one record.
typedef enum tls_joining {
  TLS_APART,     // there is none
  TLS_HEAD_NEXT, // its head is sent next
  TLS_BODY_NEXT, // GnuTLS holds the head back
  TLS_FLUSHING,  // GnuTLS has all of it, and the socket was full
} tls_joining;

typedef struct tls_wire {
  tls_loop *loop; // NULL: there is no session
  int socket_fd;
  bool in_handshake; // and so the socket is in the loop's epoll set
  bool acknowledged; // nothing came since
  tls_joining joining;
} tls_wire;

// Before the handshake; `wire` must live as long as the session moves bytes. False when the kernel
// has no room to watch the socket.
bool tls_wire_attach(tls_wire *wire, gnutls_session_t session, int socket_fd, tls_loop *loop);

// The socket of a session that sends HTTP: its wire is attached, or it were shut down by now.
int tls_wire_socket(gnutls_session_t session);

// The next two things that are sent are the head and the body of a reply.
void tls_wire_join(tls_wire *wire);

// In the place of gnutls_record_send, which is `send`, for such a session.
typedef ssize_t tls_send(gnutls_session_t session, const void *data, size_t size);
ssize_t tls_wire_send(gnutls_session_t session, const void *data, size_t size, tls_send *send);

// The handshake is over: a request came, or the connection is closed. May be called again, and
// without a session.
void tls_wire_established(tls_wire *wire);

#endif
