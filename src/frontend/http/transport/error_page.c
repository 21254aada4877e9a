// SPDX-License-Identifier: Apache-2.0
// The three calls by which libmicrohttpd sends, in the place of those of the C library and GnuTLS.
// Any thread of the program; only those with a taker do more than hand on.
#include "frontend/http/transport/error_page.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>

#define EXPORTED         __attribute__((visibility("default")))
#define STATUS_LINE_SIZE 12 // "HTTP/1.1 400"

typedef ssize_t send_call(int socket_fd, const void *data, size_t size, int flags);
typedef ssize_t sendmsg_call(int socket_fd, const struct msghdr *message, int flags);
typedef ssize_t record_send_call(gnutls_session_t session, const void *data, size_t size);

static struct {
  send_call *send;
  sendmsg_call *sendmsg;
  record_send_call *record_send;
} next;

static pthread_once_t next_found = PTHREAD_ONCE_INIT;

static _Thread_local struct {
  error_page_taker take;
  error_page_socket *socket_of;
  void *context;
} taker;

void error_page_set_taker(error_page_taker take, error_page_socket *socket_of, void *context)
{
  taker.take = take;
  taker.socket_of = socket_of;
  taker.context = context;
}

static void find_next(void)
{
  next.send = (send_call *)dlsym(RTLD_NEXT, "send");
  next.sendmsg = (sendmsg_call *)dlsym(RTLD_NEXT, "sendmsg");
  next.record_send = (record_send_call *)dlsym(RTLD_NEXT, "gnutls_record_send");
}

// The status of an error's reply that begins so; 0 for anything else.
static unsigned error_status(const char *data, size_t size)
{
  if (size < STATUS_LINE_SIZE || memcmp(data, "HTTP/1.", 7) != 0 || data[8] != ' ')
    return 0;
  if (data[9] != '4' && data[9] != '5')
    return 0;
  return (unsigned)((data[9] - '0') * 100 + (data[10] - '0') * 10 + (data[11] - '0'));
}

static bool is_taken(int socket_fd, const void *data, size_t size)
{
  error_page_taker take = taker.take;
  unsigned status = take == NULL ? 0 : error_status(data, size);
  if (status == 0)
    return false;
  taker.take = NULL; // for what the taker sends
  bool taken = take(taker.context, socket_fd, status);
  taker.take = take;
  return taken;
}

EXPORTED ssize_t send(int socket_fd, const void *data, size_t size, int flags)
{
  pthread_once(&next_found, find_next);
  if (!is_taken(socket_fd, data, size))
    return next.send(socket_fd, data, size, flags);
  errno = EPIPE;
  return -1;
}

EXPORTED ssize_t sendmsg(int socket_fd, const struct msghdr *message, int flags)
{
  pthread_once(&next_found, find_next);
  const struct iovec *first = message->msg_iovlen > 0 ? &message->msg_iov[0] : NULL;
  if (first == NULL || !is_taken(socket_fd, first->iov_base, first->iov_len))
    return next.sendmsg(socket_fd, message, flags);
  errno = EPIPE;
  return -1;
}

EXPORTED ssize_t gnutls_record_send(gnutls_session_t session, const void *data, size_t size)
{
  pthread_once(&next_found, find_next);
  if (taker.take == NULL || !is_taken(taker.socket_of(session), data, size))
    return next.record_send(session, data, size);
  return GNUTLS_E_PUSH_ERROR;
}

const char *error_page_text(unsigned status)
{
  switch (status) {
  case 400:
    return "the request is malformed: expected a line 'METHOD URL HTTP/1.1', fields "
           "'name: value' and at most one length, in decimal digits";
  case 413:
    return "the request's Content-Length is beyond 64 bits";
  case 414:
    return "the request's URL is too long";
  case 431:
    return "the request's header fields are too many or too long";
  case 505:
    return "expected a request of HTTP/1.0 or HTTP/1.1";
  default:
    return "the server cannot read the request";
  }
}
