// SPDX-License-Identifier: Apache-2.0
// Accepts connections from a listening socket. The caller owns the epoll set that watches the
// socket, and says when the limit of connections is reached. One thread at a time.
#ifndef NEREID_FRONTEND_COMMON_NET_ACCEPTOR_H
#define NEREID_FRONTEND_COMMON_NET_ACCEPTOR_H

#include "frontend/common/net/listen.h"
#include "frontend/common/net/loop_core.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct acceptor {
  const char *protocol;            // static
  listen_socket *socket;           // borrowed; acceptor_close closes its descriptor
  int epoll_fd;                    // borrowed; the socket's events carry the acceptor as data
  bool watched;                    // the epoll set has the socket
  int last_fd;                     // descriptor of the last connection; see room_is_left
  _Atomic uint64_t last_logged_ns; // when the log last said that new connections wait
} acceptor;

static inline bool acceptor_is_open(const acceptor *a)
{
  return a->socket->socket_fd >= 0;
}

// Starts or stops watching the socket. False when the kernel has no memory for it; errno has the
// reason.
bool acceptor_watch(acceptor *a, bool watched);

// Accepts one connection; NULL when there is none. *waits is true when none can be accepted for a
// while, because the limit is reached (`is_full`) or descriptors or memory are short; the log has
// the reason. A caller that then stops watching must try again later by itself. A connection
// without memory for its arrival is closed.
arrival *acceptor_take(acceptor *a, bool is_full, bool *waits);

// How many clients wait to be accepted, as far as the kernel tells: it does of TCP.
size_t acceptor_waiting(const acceptor *a);

// Idempotent.
void acceptor_close(acceptor *a);

#endif
