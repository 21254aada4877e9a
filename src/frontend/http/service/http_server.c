// Starts, drains and stops the inference listener: libmicrohttpd's loops and the watcher.
#include "frontend/http/service/http_server.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "frontend/common/net/listener_limits.h"
#include "frontend/common/observe/frontend_log.h"
#include "frontend/common/tensor/infer_tensors.h"
#include "frontend/http/exchange/access.h"
#include "frontend/http/exchange/exchange.h"
#include "frontend/http/exchange/server.h"
#include "frontend/http/service/routes.h"
#include "frontend/http/transport/head_probe.h"
#include "frontend/http/transport/loop.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define OTHER_DESCRIPTORS 64
#define DRAIN_PAUSE_NS    UINT64_C(1000000)

void http_server_options_init(http_server_options *options)
{
  *options = (http_server_options){
      .address = "0.0.0.0",
      .port = 8000,
      .backlog = 1024,
      .connection_limit = 10000,
      .max_input_size = 64u << 20,
      .header_timeout_ms = 10000,
      .body_timeout_ms = 30000,
      .write_timeout_ms = 30000,
      .min_rate = 256,
      .idle_timeout_ms = 75000,
      .busy_poll_us = 50,
  };
}

static error *make_shared_replies(http_server *http)
{
  static char nothing[1];
  http->empty_reply = MHD_create_response_from_buffer(0, nothing, MHD_RESPMEM_PERSISTENT);
  http->empty_json_reply = MHD_create_response_from_buffer(0, nothing, MHD_RESPMEM_PERSISTENT);
  if (http->empty_reply == NULL || http->empty_json_reply == NULL ||
      MHD_add_response_header(http->empty_json_reply, MHD_HTTP_HEADER_CONTENT_TYPE,
                              "application/json") != MHD_YES)
    return error_no_memory();
  return NULL;
}

static http_server *allocate(const http_server_options *options, TRITONSERVER_Server *server)
{
  http_server *http = calloc(1, sizeof(*http));
  if (http == NULL)
    return NULL;
  http->options = *options;
  http->options.address = NULL;
  static const access_policy open;
  static const tls_identity plain;
  if (http->options.access == NULL)
    http->options.access = &open;
  if (http->options.tls == NULL)
    http->options.tls = &plain;
  http->server = server;
  http->routes = options->only_metrics ? &metrics_routes : &http_routes;
  refcount_init(&http->references);
  http->options.connection_limit = listener_connection_limit(
      "HTTP", options->connection_limit, OTHER_DESCRIPTORS + CONNECTIONS_RESERVED);
  http->options.max_inflight_bytes = listener_byte_limit(options->max_inflight_bytes);
  http->budget.limit = http->options.max_inflight_bytes;
  drain_init(&http->drain);
  return http;
}

// The loops are there before anything is accepted; the socket listens meanwhile.
static error *start(http_server *http, int listen_fd_owned)
{
  error *failure = head_probe();
  http->parallel = (parallel){.run = jobs_run_parts, .pool = http->options.jobs};
  if (failure == NULL)
    failure = make_shared_replies(http);
  if (failure == NULL)
    failure = infer_tensors_make_allocator(&http->allocator);
  if (failure == NULL)
    failure = connections_new(&http->options, &exchange_calls_of_loops, &http->connections);
  if (failure == NULL)
    failure =
        loops_new(&http->options, &exchange_calls_of_loops, http, http->connections, &http->loops);
  if (failure == NULL)
    return watcher_new(http->connections, listen_fd_owned, http->loops, &http->watcher);
  close(listen_fd_owned);
  return failure;
}

error *http_server_new(const http_server_options *options, TRITONSERVER_Server *server,
                       http_server **result)
{
  http_server *http = allocate(options, server);
  if (http == NULL)
    return error_no_memory();
  const listen_options where = {options->address, options->port, options->reuse_port,
                                options->backlog, options->unix_mode};
  error *failure = listen_open(&where, &http->listener);
  if (failure == NULL) {
    http->exposure =
        exposure_of(http->options.access, http->options.shared_memory, &http->listener);
    failure = start(http, http->listener.socket_fd);
  }
  if (failure != NULL) {
    http_server_free(http);
    return failure;
  }
  const char *what = options->only_metrics            ? "Metrics Service"
                     : http->options.access->is_admin ? "admin HTTP service"
                                                      : "HTTPService";
  frontend_log_info("Started %s at %s%s", what, http->listener.where,
                    http->options.tls->certificate != NULL ? " with TLS" : "");
  if (!options->only_metrics)
    exposure_log(&http->exposure, &http->listener);
  *result = http;
  return NULL;
}

const exposure *http_server_exposure(const http_server *http)
{
  return &http->exposure;
}

const char *http_server_where(const http_server *http)
{
  return http->listener.where;
}

void http_server_announce_stop(http_server *http)
{
  atomic_store(&http->leaving, true);
}

size_t http_server_drain(http_server *http, uint64_t deadline_ns)
{
  http_server_announce_stop(http);
  drain_begin(&http->drain);
  if (http->watcher == NULL)
    return 0;
  listen_remove(&http->listener);
  watcher_stop_accepting(http->watcher);
  // Each client is told with its next reply to close; who has none on its way is closed here.
  while (watcher_count_open(http->watcher) > 0 && clock_monotonic_ns() < deadline_ns) {
    loops_close_idle(http->loops);
    if (drain_wait(&http->drain, &http->unanswered, deadline_ns) == 0)
      clock_sleep_until(clock_monotonic_ns() + DRAIN_PAUSE_NS);
  }
  size_t unanswered = atomic_load(&http->unanswered);
  if (unanswered > 0)
    connections_log_requests(http->connections);
  return unanswered;
}

void http_server_free(http_server *http)
{
  if (http == NULL)
    return;
  http_server_announce_stop(http);
  drain_begin(&http->drain);
  atomic_store(&http->stopping, true);
  listen_remove(&http->listener);
  if (http->watcher != NULL) {
    watcher_stop_accepting(http->watcher);
    // libmicrohttpd must not be stopped while a connection is suspended.
    connections_cancel_all(http->connections);
    drain_wait(&http->drain, &http->busy, CLOCK_NEVER);
  }
  loops_stop(http->loops);
  watcher_free(http->watcher);
  http_server_unref(http);
}
