// Opens the gRPC listener.
#include "daemon/grpc_port.h"

#include "frontend/grpc/grpc_server.h"

#include <string.h>

static unsigned compression_level(const char *name)
{
  static const char *const names[] = {"none", "low", "medium", "high"};
  for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
    if (strcmp(names[i], name) == 0)
      return i;
  return 0;
}

static void set_limits(grpc_server_options *grpc, const daemon_options *o)
{
  grpc->connection_limit = (unsigned)o->grpc_max_connections;
  grpc->max_inflight_bytes = (size_t)o->grpc_max_inflight_bytes;
  grpc->handshake_timeout_ms = (uint64_t)o->grpc_handshake_timeout_ms;
  grpc->body_timeout_ms = (uint64_t)o->grpc_body_timeout_ms;
  grpc->write_timeout_ms = (uint64_t)o->grpc_write_timeout_ms;
  grpc->keepalive_time_ms = (uint64_t)o->grpc_keepalive_time_ms;
  grpc->keepalive_timeout_ms = (uint64_t)o->grpc_keepalive_timeout_ms;
  grpc->keepalive_without_calls = o->grpc_keepalive_permit_without_calls;
  grpc->min_ping_interval_ms = (uint64_t)o->grpc_min_ping_interval_ms;
  grpc->max_ping_strikes = (unsigned)o->grpc_max_ping_strikes;
  grpc->max_connection_age_ms = (uint64_t)o->grpc_max_connection_age_ms;
  grpc->max_connection_age_grace_ms = (uint64_t)o->grpc_max_connection_age_grace_ms;
}

// Where clients come in, and by what rules.
static void set_front(grpc_server_options *grpc, const grpc_port_parts *parts)
{
  const daemon_options *o = parts->options;
  grpc->address = o->grpc_address;
  grpc->port = (uint16_t)o->grpc_port;
  grpc->reuse_port = o->grpc_reuse_port;
  options_unix_mode(o->unix_socket_mode, &grpc->unix_mode);
  grpc->thread_count = (unsigned)o->grpc_thread_count;
  grpc->busy_poll_us = (unsigned)o->http_busy_poll_us;
  grpc->tls = &parts->rules->grpc.tls;
  grpc->access = &parts->rules->grpc.access;
}

static void set_admin(grpc_server_options *grpc, const grpc_port_parts *parts)
{
  grpc->address = parts->options->admin_grpc_address;
  options_unix_mode(parts->options->admin_socket_mode, &grpc->unix_mode);
  grpc->connection_limit = ADMIN_CONNECTIONS;
  grpc->thread_count = 1;
  grpc->busy_poll_us = 0;
  grpc->access = &parts->rules->admin;
}

error *grpc_port_open(const grpc_port_parts *parts, bool admin, grpc_server **result)
{
  const daemon_options *o = parts->options;
  grpc_server_options grpc;
  grpc_server_options_init(&grpc);
  grpc.compression_level = compression_level(o->grpc_compression_level);
  set_limits(&grpc, o);
  if (admin)
    set_admin(&grpc, parts);
  else
    set_front(&grpc, parts);
  grpc.forward = parts->rules->grpc.forward;
  grpc.access_log = parts->access_log;
  grpc.shared_memory = parts->shared_memory;
  grpc.trace = parts->trace;
  grpc.jobs = parts->jobs;
  return grpc_server_new(&grpc, parts->server, result);
}

const exposure *grpc_port_exposure(const grpc_server *g)
{
  return g == NULL ? NULL : grpc_server_exposure(g);
}

const char *grpc_port_where(const grpc_server *g)
{
  return g != NULL ? grpc_server_where(g) : NULL;
}

void grpc_port_announce_stop(grpc_server *g)
{
  if (g != NULL)
    grpc_server_announce_stop(g);
}

size_t grpc_port_drain(grpc_server *g, uint64_t deadline_ns)
{
  return g == NULL ? 0 : grpc_server_drain(g, deadline_ns);
}

void grpc_port_close(grpc_server *g)
{
  grpc_server_free(g);
}
