// SPDX-License-Identifier: Apache-2.0
// Moves the bytes of a TLS session instead of GnuTLS's own functions, for two reasons. While a
// handshake waits for its client, libmicrohttpd takes the connection for ready, again and again,
// and does not wait for its socket; so the loop must know whether bytes moved, and the socket must
// wake it. And a client's last handshake bytes are acknowledged at once, or Nagle's algorithm
// delays its first request by 40 ms.
//
// A short reply goes out as one record: libmicrohttpd sends its head and its body one by one over
// TLS, with two system calls and two records. Loop thread.
#ifndef NEREID_FRONTEND_HTTP_TRANSPORT_TLS_WIRE_H
#define NEREID_FRONTEND_HTTP_TRANSPORT_TLS_WIRE_H

#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

// Shared by all sessions of a loop.
typedef struct tls_loop {
  uint64_t moves; // calls that moved bytes
  int epoll_fd;   // the loop's
} tls_loop;

// The state of a reply that goes out as one record.
typedef enum tls_joining {
  TLS_APART,     // no such reply
  TLS_HEAD_NEXT, // its head will be sent next
  TLS_BODY_NEXT, // GnuTLS holds the head back
  TLS_FLUSHING,  // GnuTLS has all of it, and the socket was full
} tls_joining;

typedef struct tls_wire {
  tls_loop *loop; // NULL: no session
  int socket_fd;
  bool in_handshake; // the socket is in the loop's epoll set
  bool acknowledged; // no bytes came since the last acknowledgement
  tls_joining joining;
} tls_wire;

// Call before the handshake; `wire` must live as long as the session. False when the kernel has no
// memory to watch the socket.
bool tls_wire_attach(tls_wire *wire, gnutls_session_t session, int socket_fd, tls_loop *loop);

// The socket of a session whose wire is attached; a connection without one is shut down at once.
int tls_wire_socket(gnutls_session_t session);

// The next two sends are the head and the body of a reply.
void tls_wire_join(tls_wire *wire);

// Replaces gnutls_record_send, which is `send`.
typedef ssize_t tls_send(gnutls_session_t session, const void *data, size_t size);
ssize_t tls_wire_send(gnutls_session_t session, const void *data, size_t size, tls_send *send);

// The handshake is over: a request came, or the connection closes. Idempotent; allowed without a
// session.
void tls_wire_established(tls_wire *wire);

#endif
