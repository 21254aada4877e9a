// SPDX-License-Identifier: Apache-2.0
// Starts, drains and stops HTTP listeners: the loops and the watcher.
#include "frontend/http/service/http_server.h"

#include "base/clock.h"
#include "base/machine.h"
#include "frontend/common/tensor/infer_tensors.h"
#include "frontend/http/exchange/exchange.h"
#include "frontend/http/exchange/exchange_server.h"
#include "frontend/http/service/routes.h"
#include "frontend/http/transport/library_probe.h"

#define DRAIN_PAUSE_NS  UINT64_C(1000000)
#define RETIRE_PAUSE_NS UINT64_C(20000000)

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

// Starts the loops before the watcher accepts; until then clients wait in the backlog.
static error *start(listener *l, const route_table *routes)
{
  http_server *http = http_server_of(l);
  http->routes = routes;
  http->parallel = (parallel){.run = jobs_run_parts, .pool = l->options.jobs};
  library_traits traits;
  RETURN_IF_ERROR(library_probe(&traits));
  RETURN_IF_ERROR(make_shared_replies(http));
  RETURN_IF_ERROR(infer_tensors_make_allocator(&l->allocator));
  RETURN_IF_ERROR(connections_new(l, &exchange_calls_of_loops, traits, &http->connections));
  RETURN_IF_ERROR(loops_new(l, &exchange_calls_of_loops, http->connections, &http->loops));
  return connections_watch(http->connections, http->loops);
}

static error *start_http(listener *l)
{
  return start(l, l->options.metrics_too ? &http_routes_with_metrics : &http_routes);
}

static error *start_metrics(listener *l)
{
  l->budget.limit = machine_memory() / 4; // not by HTTP's flag: scrapes have no body
  return start(l, &metrics_routes);
}

static void begin_accepting(listener *l)
{
  connections_accept(http_server_of(l)->connections);
}

static void retire_until(listener *l, uint64_t deadline_ns)
{
  http_server *http = http_server_of(l);
  connections_retire(http->connections, LISTENER_QUIET_MS);
  while (clock_monotonic_ns() < deadline_ns && connections_count_open(http->connections) > 0) {
    loops_close_idle(http->loops);
    clock_sleep_until(clock_monotonic_ns() + RETIRE_PAUSE_NS);
  }
}

static size_t drain_until(listener *l, uint64_t deadline_ns)
{
  http_server *http = http_server_of(l);
  connections_stop_accepting(http->connections);
  // Clients with a request in flight learn from its reply to close; connections without one are
  // closed here.
  while (connections_count_open(http->connections) > 0 && clock_monotonic_ns() < deadline_ns) {
    loops_close_idle(http->loops);
    if (drain_wait(&l->drain, &http->unanswered, deadline_ns) == 0)
      clock_sleep_until(clock_monotonic_ns() + DRAIN_PAUSE_NS);
  }
  size_t unanswered = atomic_load(&http->unanswered);
  if (unanswered > 0)
    connections_log_requests(http->connections);
  return unanswered;
}

static void stop(listener *l)
{
  http_server *http = http_server_of(l);
  atomic_store(&http->stopping, true);
  if (http->loops == NULL)
    return;
  connections_stop_accepting(http->connections);
  // libmicrohttpd must not be stopped while a connection is suspended.
  connections_cancel_all(http->connections);
  drain_wait(&l->drain, &l->busy, CLOCK_NEVER);
  loops_stop(http->loops);
  connections_unwatch(http->connections);
}

static void free_parts(listener *l)
{
  http_server *http = http_server_of(l);
  if (http->empty_reply != NULL)
    MHD_destroy_response(http->empty_reply);
  if (http->empty_json_reply != NULL)
    MHD_destroy_response(http->empty_json_reply);
  loops_free(http->loops);
  connections_free(http->connections);
}

const listener_protocol http_protocol = {.name = "HTTP",
                                         .size = sizeof(http_server),
                                         .start = start_http,
                                         .accept = begin_accepting,
                                         .retire = retire_until,
                                         .drain = drain_until,
                                         .stop = stop,
                                         .free = free_parts};

const listener_protocol metrics_protocol = {.name = "metrics",
                                            .size = sizeof(http_server),
                                            .start = start_metrics,
                                            .accept = begin_accepting,
                                            .retire = retire_until,
                                            .stop = stop,
                                            .free = free_parts};
