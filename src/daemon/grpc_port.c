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

error *grpc_port_open(const grpc_port_parts *parts, grpc_server **result)
{
  const daemon_options *o = parts->options;
  grpc_server_options grpc;
  grpc_server_options_init(&grpc);
  grpc.address = o->grpc_address;
  grpc.port = (uint16_t)o->grpc_port;
  grpc.reuse_port = o->grpc_reuse_port;
  options_unix_mode(o, &grpc.unix_mode);
  grpc.thread_count = (unsigned)o->grpc_thread_count;
  grpc.busy_poll_us = (unsigned)o->http_busy_poll_us;
  grpc.compression_level = compression_level(o->grpc_compression_level);
  set_limits(&grpc, o);
  grpc.tls = &parts->rules->grpc.tls;
  grpc.restricted = &parts->rules->grpc.restricted;
  grpc.forward = parts->rules->grpc.forward;
  grpc.access_log = parts->access_log;
  grpc.shared_memory = parts->shared_memory;
  grpc.trace = parts->trace;
  grpc.admin_local_only = o->secure;
  grpc.allow_model_upload = o->allow_model_upload;
  return grpc_server_new(&grpc, parts->server, result);
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
