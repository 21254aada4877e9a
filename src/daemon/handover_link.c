// SPDX-License-Identifier: Apache-2.0
// Sends and receives. See handover_link.h.
#include "daemon/handover_link.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_BYTES 65536
#define NS_PER_MS  UINT64_C(1000000)

error *handover_link_open(handover_link *link, int fd_owned)
{
  struct ucred peer;
  socklen_t size = sizeof(peer);
  const struct timeval limit = {.tv_sec = HANDOVER_PATIENCE_MS / 1000};
  *link = HANDOVER_NO_LINK;
  if (getsockopt(fd_owned, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
      setsockopt(fd_owned, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) != 0) {
    error *e = error_new(ERROR_UNAVAILABLE, "who is at the other end: %s", strerror(errno));
    close(fd_owned);
    return e;
  }
  if (peer.uid != geteuid()) {
    close(fd_owned);
    return error_new(
        ERROR_UNAVAILABLE,
        "process %d belongs to user %u: only a server of the same user (%u) takes part "
        "in an upgrade",
        (int)peer.pid, (unsigned)peer.uid, (unsigned)geteuid());
  }
  link->fd = fd_owned;
  link->peer = peer.pid;
  return NULL;
}

static void close_received(handover_link *link)
{
  while (link->fd_count > 0)
    close(link->fds[--link->fd_count]);
}

void handover_link_close(handover_link *link)
{
  close_received(link);
  buffer_fini(&link->input);
  if (link->fd >= 0)
    close(link->fd);
  *link = HANDOVER_NO_LINK;
}

// ---- sending ----

typedef union rights {
  char bytes[CMSG_SPACE(HANDOVER_SOCKETS * sizeof(int))];
  struct cmsghdr header; // aligns
} rights;

static void attach(struct msghdr *m, rights *r, const int *fds, size_t count)
{
  if (count == 0)
    return;
  memset(r, 0, sizeof(*r));
  m->msg_control = r->bytes;
  m->msg_controllen = CMSG_SPACE(count * sizeof(int));
  struct cmsghdr *c = CMSG_FIRSTHDR(m);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(count * sizeof(int));
  memcpy(CMSG_DATA(c), fds, count * sizeof(int));
}

// The descriptors go with the first byte.
static error *send_all(handover_link *link, const char *text, size_t size, const int *fds,
                       size_t fd_count)
{
  rights r;
  while (size > 0) {
    struct iovec part = {(void *)text, size};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    attach(&m, &r, fds, fd_count);
    ssize_t sent = sendmsg(link->fd, &m, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent <= 0) {
      link->ended = errno == EPIPE || errno == ECONNRESET;
      return error_new(ERROR_UNAVAILABLE, "process %d takes no message: %s", (int)link->peer,
                       strerror(errno));
    }
    fd_count = 0;
    text += sent;
    size -= (size_t)sent;
  }
  return NULL;
}

error *handover_link_send(handover_link *link, json_t *message_owned, const int *fds,
                          size_t fd_count)
{
  AUTO_FREE char *text = message_owned == NULL ? NULL : json_dumps(message_owned, JSON_COMPACT);
  json_decref(message_owned);
  return text == NULL ? error_no_memory() : send_all(link, text, strlen(text) + 1, fds, fd_count);
}

// ---- receiving ----

static error *keep_descriptors(handover_link *link, struct msghdr *m)
{
  bool fits = (m->msg_flags & MSG_CTRUNC) == 0;
  for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c != NULL; c = CMSG_NXTHDR(m, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
      continue;
    size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
      int fd;
      memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
      fits = fits && link->fd_count < HANDOVER_SOCKETS;
      if (fits)
        link->fds[link->fd_count++] = fd;
      else
        close(fd);
    }
  }
  return fits ? NULL
              : error_new(ERROR_INVALID_ARG,
                          "process %d sends more than %d descriptors, or more "
                          "than this process may have",
                          (int)link->peer, HANDOVER_SOCKETS);
}

error *handover_link_read(handover_link *link)
{
  rights r;
  char *room = buffer_reserve(&link->input, READ_BYTES);
  if (room == NULL)
    return error_no_memory();
  struct iovec part = {room, READ_BYTES};
  struct msghdr m = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = r.bytes, .msg_controllen = sizeof(r.bytes)};
  ssize_t size = recvmsg(link->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size < 0 && (errno == EAGAIN || errno == EINTR))
    return NULL;
  if (size <= 0) {
    link->ended = true;
    return error_new(ERROR_UNAVAILABLE, "process %d is gone%s%s", (int)link->peer,
                     size < 0 ? ": " : "", size < 0 ? strerror(errno) : "");
  }
  link->input.size += (size_t)size;
  RETURN_IF_ERROR(keep_descriptors(link, &m));
  return link->input.size <= HANDOVER_MESSAGE_BYTES
             ? NULL
             : error_new(ERROR_INVALID_ARG, "process %d sends a message of more than %u bytes",
                         (int)link->peer, HANDOVER_MESSAGE_BYTES);
}

bool handover_link_is_alive(const handover_link *link)
{
  struct pollfd end = {.fd = link->fd, .events = POLLRDHUP};
  return link->fd >= 0 && poll(&end, 1, 0) == 0;
}

error *handover_link_take(handover_link *link, json_t **message)
{
  buffer *in = &link->input;
  const char *end = in->size == 0 ? NULL : memchr(in->data, '\0', in->size);
  *message = NULL;
  if (end == NULL)
    return NULL;
  size_t size = (size_t)(end - in->data);
  error *e = handover_message_read((slice){in->data, size}, message);
  in->size -= size + 1;
  memmove(in->data, end + 1, in->size);
  return e;
}

static error *await_input(const handover_link *link, uint64_t deadline_ns)
{
  uint64_t now = clock_monotonic_ns();
  struct pollfd input = {.fd = link->fd, .events = POLLIN};
  int left_ms = now < deadline_ns ? (int)((deadline_ns - now) / NS_PER_MS) + 1 : 0;
  int ready = poll(&input, 1, left_ms);
  if (ready == 0)
    return error_new(ERROR_UNAVAILABLE, "process %d has not answered for %d ms", (int)link->peer,
                     HANDOVER_PATIENCE_MS);
  return NULL;
}

static error *await_message(handover_link *link, json_t **message)
{
  const uint64_t deadline = clock_monotonic_ns() + HANDOVER_PATIENCE_MS * NS_PER_MS;
  RETURN_IF_ERROR(handover_link_take(link, message));
  while (*message == NULL) {
    RETURN_IF_ERROR(await_input(link, deadline));
    RETURN_IF_ERROR(handover_link_read(link));
    RETURN_IF_ERROR(handover_link_take(link, message));
  }
  return NULL;
}

error *handover_link_ask(handover_link *link, json_t *message_owned, const char *kind,
                         json_t **answer)
{
  *answer = NULL;
  error *e = handover_link_send(link, message_owned, NULL, 0);
  if (e != NULL && !link->ended)
    return e;
  error_free(e);
  RETURN_IF_ERROR(await_message(link, answer));
  e = handover_message_expect(*answer, kind);
  if (e == NULL)
    return NULL;
  json_decref(*answer);
  *answer = NULL;
  return e;
}
