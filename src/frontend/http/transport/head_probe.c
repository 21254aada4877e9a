// SPDX-License-Identifier: Apache-2.0
// Sends known requests through a daemon of its own. Called once for each listener, before it has
// threads.
#include "frontend/http/transport/head_probe.h"

#include "frontend/http/transport/head.h"

#include <errno.h>
#include <microhttpd.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINE       "POST /v2/models/a%20b/infer?x HTTP/1.1\r\n"
#define MAX_PASSES 100

// What a daemon made of one request.
typedef struct probe {
  bool seen;
  target_fault target;
  request_headers headers;
} probe;

static const struct {
  const char *name;
  const char *text;
  size_t size;
  bool good;
} requests[] = {
#define ROW(name, text, good)                                                                      \
  {                                                                                                \
    name, text, sizeof(text) - 1, good                                                             \
  }
    ROW("blanks around values, and none", LINE "Host: x\r\nA: \t b c \t \r\nB:\r\nLast:y\r\n\r\n",
        true),
    ROW("a blank before the colon", LINE "Host: x\r\nA : b\r\n\r\n", false),
    ROW("a value on two lines", LINE "Host: x\r\nA: b\r\n c\r\n\r\n", false),
    ROW("a line that ends with LF only", LINE "Host: x\r\nA: b\nB: c\r\n\r\n", false),
    ROW("a zero in a value", LINE "Host: x\r\nA: b\0c\r\n\r\n", false),
    ROW("a line without a name", LINE "Host: x\r\n: b\r\n\r\n", false),
    ROW("a zero in the URL", "GET /v2\0 HTTP/1.1\r\nHost: x\r\n\r\n", false),
#undef ROW
};

static void *see_target(void *probe_pointer, const char *target, struct MHD_Connection *mhd)
{
  (void)mhd;
  probe *p = probe_pointer;
  p->target = head_check_target(target);
  return NULL;
}

static enum MHD_Result see_head(void *probe_pointer, struct MHD_Connection *mhd, const char *url,
                                const char *method, const char *version, const char *upload,
                                size_t *upload_size, void **context)
{
  (void)url, (void)method, (void)version, (void)upload, (void)upload_size, (void)context;
  probe *p = probe_pointer;
  p->seen = true;
  head_read_fields(mhd, &p->headers);
  return MHD_NO;
}

// Writes the request and lets the daemon read it.
static bool send_through(struct MHD_Daemon *daemon, const char *text, size_t size)
{
  int ends[2];
  struct sockaddr address = {.sa_family = AF_UNIX};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0)
    return false;
  bool sent = send(ends[0], text, size, MSG_NOSIGNAL) == (ssize_t)size;
  sent = sent && shutdown(ends[0], SHUT_WR) == 0;
  if (!sent)
    close(ends[1]);
  else
    sent = MHD_add_connection(daemon, ends[1], &address, sizeof(address)) == MHD_YES;
  for (int i = 0; sent && i < MAX_PASSES; i++) {
    char byte;
    MHD_run_wait(daemon, 0);
    if (recv(ends[0], &byte, 1, 0) == 0) // the daemon closed: all is read
      break;
  }
  close(ends[0]);
  return sent;
}

static error *ask(size_t i)
{
  probe p = {.target = TARGET_GOOD};
  struct MHD_Daemon *daemon =
      MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET, 0, NULL, NULL, see_head, &p,
                       MHD_OPTION_UNESCAPE_CALLBACK, head_leave_encoded, NULL,
                       MHD_OPTION_URI_LOG_CALLBACK, see_target, &p, MHD_OPTION_END);
  if (daemon == NULL)
    return error_new(ERROR_UNAVAILABLE, "cannot try libmicrohttpd: it does not start");
  bool sent = send_through(daemon, requests[i].text, requests[i].size);
  int reason = errno;
  MHD_stop_daemon(daemon);
  if (!sent)
    return error_new(ERROR_UNAVAILABLE, "cannot try libmicrohttpd: %s", strerror(reason));
  bool passed = p.seen && p.target == TARGET_GOOD && p.headers.fault == NULL;
  if (passed == requests[i].good && (!passed || p.headers.count == 4))
    return NULL;
  return error_new(ERROR_UNAVAILABLE,
                   "libmicrohttpd %s keeps the heads of requests in another way than this program "
                   "reads them (0.9.75 to 0.9.77 are known): a request with %s %s",
                   MHD_get_version(), requests[i].name,
                   requests[i].good ? "seems malformed" : "would not be noticed");
}

error *head_probe(void)
{
  for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
    RETURN_IF_ERROR(ask(i));
  return NULL;
}
