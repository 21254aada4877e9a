// The Prometheus listener: one libmicrohttpd loop of its own. Its handler runs on that loop.
#include "frontend/http/service/http_server.h"

#include "base/buffer.h"
#include "base/error.h"
#include "frontend/common/observe/frontend_log.h"
#include "frontend/http/exchange/response.h"
#include "frontend/http/transport/compress.h"
#include "frontend/http/transport/error_page.h"
#include "frontend/http/transport/head.h"
#include "frontend/http/transport/headers.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTION_LIMIT        100 // libmicrohttpd loses events when 128 come at once
#define CONNECTION_MEMORY_BYTES (16u << 10)
#define TIMEOUT_SECONDS         30
#define UNREAD_BYTES            16384 // dropped at a time behind a request that was refused
#define UNREAD_RUNS             64
#define TEXT_TYPE               "text/plain; charset=utf-8"

typedef struct metrics_server {
  listener listener;
  struct MHD_Daemon *daemon; // has the socket's descriptor
} metrics_server;

static void delete_metrics(void *metrics)
{
  TRITONSERVER_ErrorDelete(TRITONSERVER_MetricsDelete(metrics));
}

// The text is sent from the snapshot, which the response then owns.
static struct MHD_Response *plain_response(TRITONSERVER_Metrics *metrics_owned, slice text)
{
  return response_of(text.data, text.size, TEXT_TYPE, delete_metrics, metrics_owned);
}

static void free_packed(void *packed)
{
  buffer_fini(packed);
  free(packed);
}

static struct MHD_Response *packed_response(TRITONSERVER_Metrics *metrics_owned, slice text,
                                            content_coding coding)
{
  buffer *packed = calloc(1, sizeof(*packed));
  if (packed == NULL || !compress_parts(coding, &text, 1, packed)) {
    if (packed != NULL)
      free_packed(packed);
    return plain_response(metrics_owned, text);
  }
  delete_metrics(metrics_owned);
  return response_with(response_of(packed->data, packed->size, TEXT_TYPE, free_packed, packed),
                       MHD_HTTP_HEADER_CONTENT_ENCODING,
                       coding == CODING_GZIP ? "gzip" : "deflate");
}

static content_coding accepted_coding(struct MHD_Connection *connection)
{
  const char *accepted =
      MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT_ENCODING);
  return accepted == NULL ? CODING_IDENTITY : headers_accepted_coding(slice_of(accepted));
}

static struct MHD_Response *metrics_response(metrics_server *m, struct MHD_Connection *connection,
                                             unsigned *status)
{
  TRITONSERVER_Metrics *metrics = NULL;
  slice text;
  TRITONSERVER_Error *failure = TRITONSERVER_ServerMetrics(m->listener.server, &metrics);
  if (failure == NULL)
    failure = TRITONSERVER_MetricsFormatted(metrics, TRITONSERVER_METRIC_PROMETHEUS, &text.data,
                                            &text.size);
  if (failure == NULL) {
    content_coding coding = accepted_coding(connection);
    *status = MHD_HTTP_OK;
    return response_with(coding == CODING_GZIP || coding == CODING_DEFLATE
                             ? packed_response(metrics, text, coding)
                             : plain_response(metrics, text),
                         MHD_HTTP_HEADER_VARY, MHD_HTTP_HEADER_ACCEPT_ENCODING);
  }
  frontend_log_failure(NULL, "cannot give the metrics", failure);
  if (metrics != NULL)
    delete_metrics(metrics);
  *status = MHD_HTTP_SERVICE_UNAVAILABLE;
  return response_of_json_copy("{\"error\":\"the metrics are not available\"}");
}

static struct MHD_Response *make_response(metrics_server *m, struct MHD_Connection *connection,
                                          const char *url, const char *method, unsigned *status)
{
  if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
    *status = MHD_HTTP_METHOD_NOT_ALLOWED;
    return response_with(response_of_json_copy("{\"error\":\"Method Not Allowed\"}"),
                         MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
  }
  if (strcmp(url, "/metrics") == 0 || strcmp(url, "/metrics/") == 0)
    return metrics_response(m, connection, status);
  *status = MHD_HTTP_OK; // as Triton: any other path is an empty page
  return response_of("", 0, TEXT_TYPE, NULL, NULL);
}

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **state)
{
  static char seen; // the state of a request whose headers were taken
  (void)version;
  (void)upload;
  if (*state == NULL) { // a reply made now would cost the connection
    *state = &seen;
    return MHD_YES;
  }
  if (*upload_size > 0) {
    *upload_size = 0;
    return MHD_YES;
  }
  unsigned status;
  struct MHD_Response *response = make_response(context, connection, url, method, &status);
  if (response == NULL)
    return MHD_NO;
  enum MHD_Result queued = MHD_queue_response(connection, status, response);
  MHD_destroy_response(response);
  return queued;
}

// libmicrohttpd's own pages have no type; what is made here has one.
static bool take_page(void *context, int socket_fd, unsigned status, slice bytes)
{
  (void)context;
  char text[512];
  char unread[UNREAD_BYTES];
  const char *why = error_page_text(status);
  if (memmem(bytes.data, bytes.size, "\r\nContent-Type:", 15) != NULL)
    return false;
  int size = snprintf(text, sizeof(text),
                      "HTTP/1.1 %u %s\r\nConnection: close\r\nContent-Type: application/json\r\n"
                      "Content-Length: %zu\r\n\r\n{\"error\":\"%s\"}",
                      status, MHD_get_reason_phrase_for(status), strlen(why) + 12, why);
  send(socket_fd, text, (size_t)size, MSG_DONTWAIT | MSG_NOSIGNAL);
  shutdown(socket_fd, SHUT_WR);
  // Whoever closes with bytes unread takes the reply back.
  for (int i = 0; i < UNREAD_RUNS; i++)
    if (recv(socket_fd, unread, sizeof(unread), MSG_DONTWAIT) <= 0)
      break;
  return true;
}

static void connection_changed(void *context, struct MHD_Connection *connection,
                               void **socket_context, enum MHD_ConnectionNotificationCode what)
{
  (void)connection;
  (void)socket_context;
  if (what == MHD_CONNECTION_NOTIFY_STARTED)
    error_page_set_taker(take_page, NULL, context); // of libmicrohttpd's thread
}

static error *start(listener *l)
{
  metrics_server *m = (metrics_server *)l;
  unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_SUPPRESS_DATE_NO_CLOCK;
  m->daemon = MHD_start_daemon(
      flags, 0, NULL, NULL, handle, m, MHD_OPTION_LISTEN_SOCKET, l->socket.socket_fd,
      MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTION_LIMIT, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
      (size_t)CONNECTION_MEMORY_BYTES, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)TIMEOUT_SECONDS,
      MHD_OPTION_NOTIFY_CONNECTION, connection_changed, m, MHD_OPTION_UNESCAPE_CALLBACK,
      head_leave_encoded, NULL, MHD_OPTION_END);
  if (m->daemon != NULL)
    return NULL;
  close(l->socket.socket_fd);
  return error_new(ERROR_UNAVAILABLE, "cannot start the thread for metrics");
}

static void stop(listener *l)
{
  metrics_server *m = (metrics_server *)l;
  if (m->daemon != NULL)
    MHD_stop_daemon(m->daemon);
}

static void free_nothing(listener *l)
{
  (void)l;
}

const listener_protocol metrics_protocol = {.name = "metrics",
                                            .size = sizeof(metrics_server),
                                            .start = start,
                                            .stop = stop,
                                            .free = free_nothing};
