// SPDX-License-Identifier: Apache-2.0
// Replacements for functions of the C library and GnuTLS. Any thread of the program; threads
// without a watch just call the originals.
#undef _FORTIFY_SOURCE // else the C library's header defines recv, inline
#include "frontend/http/transport/library_calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>

#define EXPORTED         __attribute__((visibility("default")))
#define STATUS_LINE_SIZE 12 // "HTTP/1.1 400"

typedef ssize_t send_call(int socket_fd, const void *data, size_t size, int flags);
typedef ssize_t sendmsg_call(int socket_fd, const struct msghdr *message, int flags);
typedef ssize_t recv_call(int socket_fd, void *to, size_t size, int flags);
typedef ssize_t record_send_call(gnutls_session_t session, const void *data, size_t size);
typedef ssize_t record_recv_call(gnutls_session_t session, void *to, size_t size);

static struct {
  send_call *send;
  sendmsg_call *sendmsg;
  recv_call *recv;
  record_send_call *record_send;
  record_recv_call *record_recv;
} next;

static pthread_once_t next_found = PTHREAD_ONCE_INIT;

static _Thread_local const library_watch *watch;

void library_calls_watch(const library_watch *of_thread)
{
  watch = of_thread;
}

static void find_next(void)
{
  next.send = (send_call *)dlsym(RTLD_NEXT, "send");
  next.sendmsg = (sendmsg_call *)dlsym(RTLD_NEXT, "sendmsg");
  next.recv = (recv_call *)dlsym(RTLD_NEXT, "recv");
  next.record_send = (record_send_call *)dlsym(RTLD_NEXT, "gnutls_record_send");
  next.record_recv = (record_recv_call *)dlsym(RTLD_NEXT, "gnutls_record_recv");
}

// --- What is sent

// The status of a reply that begins with `data`, if it is 3xx to 5xx; else 0.
static unsigned error_status(const char *data, size_t size)
{
  if (size < STATUS_LINE_SIZE || memcmp(data, "HTTP/1.", 7) != 0 || data[8] != ' ')
    return 0;
  if (data[9] < '3' || data[9] > '5')
    return 0;
  return (unsigned)((data[9] - '0') * 100 + (data[10] - '0') * 10 + (data[11] - '0'));
}

static bool is_taken(int socket_fd, const void *data, size_t size)
{
  const library_watch *w = watch;
  unsigned status = error_status(data, size);
  if (status == 0)
    return false;
  watch = NULL; // the watch's own sends
  bool taken = w->sends_error(w->context, socket_fd, status);
  watch = w;
  return taken;
}

EXPORTED ssize_t send(int socket_fd, const void *data, size_t size, int flags)
{
  pthread_once(&next_found, find_next);
  if (watch == NULL || !is_taken(socket_fd, data, size))
    return next.send(socket_fd, data, size, flags);
  errno = EPIPE;
  return -1;
}

EXPORTED ssize_t sendmsg(int socket_fd, const struct msghdr *message, int flags)
{
  pthread_once(&next_found, find_next);
  const struct iovec *first = message->msg_iovlen > 0 ? &message->msg_iov[0] : NULL;
  if (watch == NULL || first == NULL || !is_taken(socket_fd, first->iov_base, first->iov_len))
    return next.sendmsg(socket_fd, message, flags);
  errno = EPIPE;
  return -1;
}

EXPORTED ssize_t gnutls_record_send(gnutls_session_t session, const void *data, size_t size)
{
  pthread_once(&next_found, find_next);
  const library_watch *w = watch;
  if (w == NULL || w->socket_of == NULL)
    return next.record_send(session, data, size);
  if (is_taken(w->socket_of(session), data, size))
    return GNUTLS_E_PUSH_ERROR;
  watch = NULL; // GnuTLS may call this function itself
  ssize_t sent = w->send_record(session, data, size, next.record_send);
  watch = w;
  return sent;
}

// --- What is received

static bool is_refused(int socket_fd, void *data, size_t size)
{
  const library_watch *w = watch;
  watch = NULL;
  bool goes_on = w->received(w->context, socket_fd, data, size);
  watch = w;
  return !goes_on;
}

// With TLS this receives encrypted bytes, which are not scanned.
EXPORTED ssize_t recv(int socket_fd, void *to, size_t size, int flags)
{
  pthread_once(&next_found, find_next);
  ssize_t got = next.recv(socket_fd, to, size, flags);
  if (got <= 0 || watch == NULL || watch->socket_of != NULL || (flags & MSG_PEEK) != 0 ||
      !is_refused(socket_fd, to, (size_t)got))
    return got;
  errno = ECONNRESET;
  return -1;
}

EXPORTED ssize_t gnutls_record_recv(gnutls_session_t session, void *to, size_t size)
{
  pthread_once(&next_found, find_next);
  ssize_t got = next.record_recv(session, to, size);
  if (got <= 0 || watch == NULL || watch->socket_of == NULL ||
      !is_refused(watch->socket_of(session), to, (size_t)got))
    return got;
  return GNUTLS_E_PULL_ERROR;
}
