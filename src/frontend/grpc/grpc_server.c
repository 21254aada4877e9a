// Starts, drains and stops the gRPC listener.
#include "frontend/grpc/grpc_server.h"

#include "base/clock.h"
#include "frontend/common/net/listener_limits.h"
#include "frontend/common/observe/frontend_log.h"
#include "frontend/common/tensor/infer_tensors.h"
#include "frontend/grpc/call/call_parts.h"
#include "frontend/grpc/service/methods.h"
#include "frontend/grpc/transport/loop.h"
#include "frontend/grpc/transport/server.h"
#include "frontend/grpc/transport/session.h"
#include "frontend/grpc/transport/wire.h"

#include <stdlib.h>
#include <unistd.h>

#define OTHER_DESCRIPTORS 96
#define PAUSE_NS          UINT64_C(1000000)

void grpc_server_options_init(grpc_server_options *options)
{
  *options = (grpc_server_options){
      .address = "0.0.0.0",
      .port = 8001,
      .backlog = 1024,
      .connection_limit = 10000,
      .keepalive_time_ms = 7200000,
      .keepalive_timeout_ms = 20000,
      .min_ping_interval_ms = 300000,
      .max_ping_strikes = 2,
      .handshake_timeout_ms = 10000,
      .body_timeout_ms = 30000,
      .write_timeout_ms = 30000,
      .busy_poll_us = 50,
  };
}

static grpc_server *allocate(const grpc_server_options *options, TRITONSERVER_Server *server)
{
  static const access_policy open;
  grpc_server *g = calloc(1, sizeof(*g));
  if (g == NULL)
    return NULL;
  g->options = *options;
  g->options.address = NULL;
  g->options.tls = NULL;
  if (g->options.access == NULL)
    g->options.access = &open;
  g->options.connection_limit =
      listener_connection_limit("gRPC", options->connection_limit, OTHER_DESCRIPTORS);
  g->server = server;
  g->handlers = &call_stream_handlers;
  g->find_method = methods_find;
  g->budget.limit = listener_byte_limit(options->max_inflight_bytes);
  refcount_init(&g->references);
  drain_init(&g->drain);
  return g;
}

// The socket listens meanwhile.
static error *start(grpc_server *g, int listen_fd_owned)
{
  error *failure = session_make_shared(&g->callbacks, &g->session_options);
  if (failure == NULL)
    failure = infer_tensors_make_allocator(&g->allocator);
  if (failure == NULL)
    return grpc_loops_new(g, listen_fd_owned, &g->loops);
  close(listen_fd_owned);
  return failure;
}

error *grpc_server_new(const grpc_server_options *options, TRITONSERVER_Server *server,
                       grpc_server **result)
{
  grpc_server *g = allocate(options, server);
  if (g == NULL)
    return error_no_memory();
  const listen_options where = {options->address, options->port, options->reuse_port,
                                options->backlog, options->unix_mode};
  error *failure = options->tls == NULL ? NULL : tls_context_new(options->tls, &g->tls);
  if (failure == NULL)
    failure = listen_open(&where, &g->listener);
  if (failure == NULL) {
    g->exposure = exposure_of(g->options.access, g->options.shared_memory, &g->listener);
    failure = start(g, g->listener.socket_fd);
  }
  if (failure != NULL) {
    grpc_server_free(g);
    return failure;
  }
  frontend_log_info("Started %s at %s%s",
                    g->options.access->is_admin ? "admin GRPC service" : "GRPCInferenceService",
                    g->listener.where, g->tls != NULL ? " with TLS" : "");
  exposure_log(&g->exposure, &g->listener);
  *result = g;
  return NULL;
}

const exposure *grpc_server_exposure(const grpc_server *g)
{
  return &g->exposure;
}

const char *grpc_server_where(const grpc_server *g)
{
  return g->listener.where;
}

void grpc_server_announce_stop(grpc_server *g)
{
  atomic_store(&g->leaving, true);
}

size_t grpc_server_drain(grpc_server *g, uint64_t deadline_ns)
{
  grpc_server_announce_stop(g);
  drain_begin(&g->drain);
  if (g->loops == NULL)
    return 0;
  listen_remove(&g->listener);
  grpc_loops_drain(g->loops);
  drain_wait(&g->drain, &g->connections, deadline_ns);
  return drain_wait(&g->drain, &g->calls, deadline_ns);
}

void grpc_server_free(grpc_server *g)
{
  if (g == NULL)
    return;
  drain_begin(&g->drain);
  grpc_loops_stop(g->loops);
  // What the core still has comes back; whoever then wakes a loop is heard here.
  while (atomic_load(&g->calls) > 0) {
    grpc_loops_run_woken(g->loops);
    drain_wait(&g->drain, &g->calls, clock_monotonic_ns() + PAUSE_NS);
  }
  grpc_server_unref(g);
}
