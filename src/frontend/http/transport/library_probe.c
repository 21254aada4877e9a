// SPDX-License-Identifier: Apache-2.0
// Sends known requests through a daemon of its own, on the calling thread. Once for each listener,
// before it has threads.
#include "frontend/http/transport/library_probe.h"

#include "frontend/http/transport/head.h"
#include "frontend/http/transport/library_calls.h"
#include "frontend/http/transport/request_scan.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINE       "POST /v2/models/a%20b/infer?x HTTP/1.1\r\nHost: x\r\n"
#define CHUNKED    LINE "Transfer-Encoding: chunked\r\n\r\n"
#define MAX_PASSES 100
#define MAX_BODY   64

// One request as a daemon has read it.
typedef struct probe {
  request_scan scan;
  request_headers headers;
  bool has_head;
  bool is_complete;
  char body[MAX_BODY];
  size_t body_size;
} probe;

// All have the body "hello".
static const struct {
  const char *name;
  const char *text;
} requests[] = {
    {"a body with a length", LINE "A: \t b c \t \r\nB:\r\nContent-Length:5\r\n\r\nhello"},
    {"a body in chunks", CHUNKED "3\r\nhel\r\n002\r\nlo\r\n0\r\n\r\n"},
    {"no Host", "POST /v2 HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"},
};

static const char extended[] = CHUNKED "3;a\r\nhel\r\n2;b=\"c\"\r\nlo\r\n0;d\r\n\r\n";

static bool received(void *probe_pointer, int socket_fd, char *data, size_t size)
{
  (void)socket_fd;
  probe *p = probe_pointer;
  request_scan_read(&p->scan, data, size);
  return true;
}

static bool sends_error(void *probe_pointer, int socket_fd, unsigned status)
{
  (void)probe_pointer, (void)socket_fd, (void)status;
  return false;
}

static enum MHD_Result handle(void *probe_pointer, struct MHD_Connection *mhd, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **context)
{
  (void)url, (void)method, (void)version;
  probe *p = probe_pointer;
  if (*context == NULL) {
    *context = p;
    p->has_head = true;
    head_read_fields(mhd, &p->headers);
    return MHD_YES;
  }
  if (*upload_size == 0) {
    p->is_complete = true;
    return MHD_NO;
  }
  size_t size = *upload_size < MAX_BODY - p->body_size ? *upload_size : MAX_BODY - p->body_size;
  memcpy(p->body + p->body_size, upload, size);
  p->body_size += size;
  *upload_size = 0;
  return MHD_YES;
}

// Writes the request to a socket and lets the daemon read it.
static bool send_through(struct MHD_Daemon *daemon, const char *text)
{
  int ends[2];
  size_t size = strlen(text);
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
    if (recv(ends[0], &byte, 1, MSG_PEEK) == 0) // the daemon has read all and closed
      break;
  }
  close(ends[0]);
  return sent;
}

// Did the scan see the bytes, and did both readers read what was sent?
static bool is_read_well(const probe *p)
{
  const scanned_request *request = request_scan_first(&p->scan);
  return request != NULL && p->scan.fault == NULL && request->is_complete && p->has_head &&
         p->is_complete && p->headers.fault == NULL && p->headers.chunked == request->chunked &&
         (uint64_t)p->headers.content_length.value == request->content_length &&
         p->body_size == request->body_bytes && p->body_size == strlen("hello") &&
         memcmp(p->body, "hello", p->body_size) == 0;
}

// Sends one request through a new daemon. *well: it was read as sent.
static error *ask(const char *text, bool *well)
{
  probe p = {0};
  library_watch watch = {.received = received, .sends_error = sends_error, .context = &p};
  struct MHD_Daemon *daemon =
      MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET, 0, NULL, NULL, handle, &p,
                       MHD_OPTION_UNESCAPE_CALLBACK, head_leave_encoded, NULL,
                       MHD_OPTION_STRICT_FOR_CLIENT, LIBRARY_STRICTNESS, MHD_OPTION_END);
  if (daemon == NULL)
    return error_new(ERROR_UNAVAILABLE, "cannot try libmicrohttpd: it does not start");
  request_scan_init(&p.scan, true);
  library_calls_watch(&watch);
  bool sent = send_through(daemon, text);
  int reason = errno;
  library_calls_watch(NULL);
  MHD_stop_daemon(daemon);
  *well = is_read_well(&p);
  request_scan_fini(&p.scan);
  return sent ? NULL
              : error_new(ERROR_UNAVAILABLE, "cannot try libmicrohttpd: %s", strerror(reason));
}

error *library_probe(library_traits *traits)
{
  for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
    bool well;
    RETURN_IF_ERROR(ask(requests[i].text, &well));
    if (!well)
      return error_new(ERROR_UNAVAILABLE,
                       "libmicrohttpd %s reads requests in another way than this program expects "
                       "(0.9.75 and 1.0.1 are known): a request with %s",
                       MHD_get_version(), requests[i].name);
  }
  return ask(extended, &traits->reads_extensions);
}
