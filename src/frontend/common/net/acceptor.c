// SPDX-License-Identifier: Apache-2.0
// Accepts connections and logs why it cannot. See acceptor.h.
#include "frontend/common/net/acceptor.h"

#include "frontend/common/observe/frontend_log.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool acceptor_watch(acceptor *a, bool watched)
{
  if (!acceptor_is_open(a) || a->watched == watched)
    return true;
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = a};
  if (epoll_ctl(a->epoll_fd, watched ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, a->socket->socket_fd,
                &event) != 0)
    return false;
  a->watched = watched;
  return true;
}

static arrival *wait(acceptor *a, const char *reason, bool *waits)
{
  if (loop_may_log(&a->last_logged_ns))
    frontend_log_warning("new %s connections wait: %s", a->protocol, reason);
  *waits = true;
  return NULL;
}

arrival *acceptor_take(acceptor *a, bool is_full, bool *waits)
{
  *waits = false;
  if (!acceptor_is_open(a))
    return NULL;
  if (is_full)
    return wait(a, "the limit of open connections is reached", waits);
  arrival next = {.socket_fd = -1};
  do {
    next.address_size = sizeof(next.address);
    next.socket_fd = accept4(a->socket->socket_fd, (struct sockaddr *)&next.address,
                             &next.address_size, SOCK_NONBLOCK | SOCK_CLOEXEC);
  } while (next.socket_fd < 0 && (errno == EINTR || errno == ECONNABORTED));
  if (next.socket_fd < 0 &&
      (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
    return wait(a, strerror(errno), waits);
  arrival *taken = next.socket_fd < 0 ? NULL : malloc(sizeof(*taken));
  if (next.socket_fd >= 0)
    a->last_fd = next.socket_fd;
  if (taken != NULL)
    *taken = next;
  else if (next.socket_fd >= 0)
    close(next.socket_fd); // no memory for it: its client sees that at once
  return taken;
}

size_t acceptor_waiting(const acceptor *a)
{
  struct tcp_info info = {0};
  socklen_t size = sizeof(info);
  bool told = acceptor_is_open(a) &&
              getsockopt(a->socket->socket_fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0;
  return told ? info.tcpi_unacked : 0; // of a listening socket: the backlog's length
}

void acceptor_close(acceptor *a)
{
  if (!acceptor_is_open(a))
    return;
  acceptor_watch(a, false);
  listen_close(a->socket);
}
