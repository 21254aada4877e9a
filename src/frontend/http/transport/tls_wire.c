// SPDX-License-Identifier: Apache-2.0
// GnuTLS's transport: a non-blocking socket that counts moves.
#include "frontend/http/transport/tls_wire.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

static void acknowledge(tls_wire *wire)
{
  int on = 1;
  setsockopt(wire->socket_fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof(on)); // fails on Unix sockets
  wire->acknowledged = true;
}

static ssize_t pull(gnutls_transport_ptr_t wire_pointer, void *to, size_t size)
{
  tls_wire *wire = wire_pointer;
  ssize_t got = recv(wire->socket_fd, to, size, 0);
  int reason = errno;
  if (got >= 0) {
    wire->loop->moves++;
    wire->acknowledged = false;
  } else if (reason == EAGAIN && wire->in_handshake && !wire->acknowledged) {
    acknowledge(wire);
  }
  errno = reason; // GnuTLS reads it
  return got;
}

static int await_bytes(gnutls_transport_ptr_t wire_pointer, unsigned timeout_ms)
{
  const tls_wire *wire = wire_pointer;
  struct pollfd event = {.fd = wire->socket_fd, .events = POLLIN};
  int timeout = timeout_ms == GNUTLS_INDEFINITE_TIMEOUT ? -1 : (int)timeout_ms;
  return poll(&event, 1, timeout);
}

static ssize_t push(gnutls_transport_ptr_t wire_pointer, const giovec_t *parts, int count)
{
  tls_wire *wire = wire_pointer;
  struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)count};
  ssize_t sent = sendmsg(wire->socket_fd, &message, MSG_NOSIGNAL);
  if (sent >= 0)
    wire->loop->moves++;
  return sent;
}

bool tls_wire_attach(tls_wire *wire, gnutls_session_t session, int socket_fd, tls_loop *loop)
{
  struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET};
  *wire = (tls_wire){.loop = loop, .socket_fd = socket_fd, .acknowledged = true};
  wire->in_handshake = epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, socket_fd, &event) == 0;
  gnutls_transport_set_ptr(session, wire);
  gnutls_transport_set_pull_function(session, pull);
  gnutls_transport_set_pull_timeout_function(session, await_bytes);
  gnutls_transport_set_vec_push_function(session, push);
  return wire->in_handshake;
}

int tls_wire_socket(gnutls_session_t session)
{
  const tls_wire *wire = gnutls_transport_get_ptr(session);
  return wire->socket_fd;
}

void tls_wire_established(tls_wire *wire)
{
  if (wire->in_handshake)
    epoll_ctl(wire->loop->epoll_fd, EPOLL_CTL_DEL, wire->socket_fd, NULL);
  wire->in_handshake = false;
}

void tls_wire_join(tls_wire *wire)
{
  assert(wire->joining == TLS_APART);
  wire->joining = TLS_HEAD_NEXT;
}

// Sends what GnuTLS holds; its last `size` bytes are the body. Until all is sent, the caller is
// told to try again.
static ssize_t flush(tls_wire *wire, gnutls_session_t session, size_t size)
{
  assert(wire->joining == TLS_FLUSHING);
  int sent = gnutls_record_uncork(session, 0);
  if (sent < 0)
    return sent;
  wire->joining = TLS_APART;
  return (ssize_t)size;
}

ssize_t tls_wire_send(gnutls_session_t session, const void *data, size_t size, tls_send *send)
{
  tls_wire *wire = gnutls_transport_get_ptr(session);
  ssize_t taken;
  switch (wire->joining) {
  case TLS_HEAD_NEXT:
    gnutls_record_cork(session);
    wire->joining = TLS_BODY_NEXT;
    break;
  case TLS_BODY_NEXT:
    taken = send(session, data, size); // takes all of it, or memory is short
    if (taken < 0)
      return taken;
    wire->joining = TLS_FLUSHING;
    return flush(wire, session, size);
  case TLS_FLUSHING:
    return flush(wire, session, size);
  case TLS_APART:
    break;
  }
  return send(session, data, size);
}
