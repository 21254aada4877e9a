// SPDX-License-Identifier: Apache-2.0
// Accepts connections from a listening socket, in somebody's epoll set; whoever owns it says when
// there are as many as there may be. One thread, but for acceptor_init.
#ifndef NEREID_FRONTEND_COMMON_NET_ACCEPTOR_H
#define NEREID_FRONTEND_COMMON_NET_ACCEPTOR_H

#include "frontend/common/net/listen.h"
#include "frontend/common/net/loop_core.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct acceptor {
  const char *protocol;            // static
  listen_socket *socket;           // borrowed; acceptor_close closes its descriptor
  int epoll_fd;                    // borrowed; its events of the socket have the acceptor as data
  bool watched;                    // the socket is in it
  int last_fd;                     // of the last connection; see room_is_left
  _Atomic uint64_t last_logged_ns; // that new connections wait
} acceptor;

static inline bool acceptor_is_open(const acceptor *a)
{
  return a->socket->socket_fd >= 0;
}

// Watches the socket, or no longer. False when the kernel has no room for that; errno says so.
bool acceptor_watch(acceptor *a, bool watched);

// Takes one connection; NULL: there is none now. When *waits comes back true, none can be taken for
// a while, for which the log has a reason: there are as many as there may be (`is_full`), or no
// descriptors. One for which there is no memory is closed. Whoever then stops watching sees to it
// that it is asked again.
arrival *acceptor_take(acceptor *a, bool is_full, bool *waits);

// May be called again.
void acceptor_close(acceptor *a);

#endif
