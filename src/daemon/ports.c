// SPDX-License-Identifier: Apache-2.0
// Opens and closes ports. Called by the main thread and the life thread, never at the same time.
#include "daemon/ports.h"

#include "frontend/common/observe/frontend_log.h"
#include "frontend/common/policy/exposure.h"
#include "frontend/http/service/http_server.h"
#ifdef NEREID_GRPC
#include "frontend/grpc/grpc_server.h"
#define GRPC_PROTOCOL (&grpc_protocol)
#else
#define GRPC_PROTOCOL NULL
#endif

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ADMIN_CONNECTIONS   32
#define METRICS_CONNECTIONS 100
#define METRICS_TIMEOUT_MS  30000

typedef struct port_row {
  const char *what;                  // Triton's name for the step that failed
  const char *service;               // its name in the log
  const char *socket;                // its name in the service manager's unit
  const listener_protocol *protocol; // NULL: not in this build
} port_row;

static const port_row rows[PORTS] = {
    [PORT_HTTP] = {"failed to start HTTP service", "HTTPService", "http", &http_protocol},
    [PORT_GRPC] = {"failed to start GRPC service", "GRPCInferenceService", "grpc", GRPC_PROTOCOL},
    [PORT_ADMIN_HTTP] = {"failed to start admin service", "admin HTTP service", "admin-http",
                         &http_protocol},
    [PORT_ADMIN_GRPC] = {"failed to start admin service", "admin GRPC service", "admin-grpc",
                         GRPC_PROTOCOL},
    [PORT_METRICS] = {"failed to start Metrics service", "Metrics Service", "metrics",
                      &metrics_protocol},
};

static unsigned compression_level(const char *name)
{
  static const char *const names[] = {"none", "low", "medium", "high"};
  unsigned level = 0;
  while (strcmp(names[level], name) != 0)
    level++;
  return level;
}

// Clients connect only at the address, and may do everything.
static bool set_admin(listener_options *to, char *address, const ports *p)
{
  static const tls_identity plain;
  options_unix_mode(p->options->admin_socket_mode, &to->listen.unix_mode);
  to->listen.address = address;
  to->thread_count = 1;
  to->connection_limit = ADMIN_CONNECTIONS;
  to->for_operators = true;
  to->busy_poll_us = 0;
  to->tls = &plain;
  to->access = &p->rules->admin;
  return address[0] != '\0';
}

// Everybody may read the metrics and do nothing else. HTTP's timeouts do not apply.
static bool set_metrics(listener_options *to, const daemon_options *o)
{
  static const tls_identity plain;
  static const access_policy open;
  to->listen.address = options_metrics_address(o);
  to->listen.port = o->metrics.port;
  to->listen.reuse_port = false;
  to->thread_count = 1;
  to->connection_limit = METRICS_CONNECTIONS;
  to->for_operators = true;
  to->header_timeout_ms = METRICS_TIMEOUT_MS;
  to->body_timeout_ms = METRICS_TIMEOUT_MS;
  to->write_timeout_ms = METRICS_TIMEOUT_MS;
  to->idle_timeout_ms = METRICS_TIMEOUT_MS;
  to->min_rate = 0;
  to->busy_poll_us = 0;
  to->tls = &plain;
  to->access = &open;
  to->access_log = NULL;
  to->orders = NULL;
  to->trace = NULL;
  return o->allow_metrics;
}

// The port's options, with borrowed parts. False: the flags turn it off.
static bool read_options(ports *p, port which, listener_options *to)
{
  const daemon_options *o = p->options;
  const bool is_grpc = which == PORT_GRPC || which == PORT_ADMIN_GRPC;
  const listener_rules *rules = is_grpc ? &p->rules->grpc : &p->rules->http;
  int64_t max_input_size = 0;
  bool limit_whole_body = false;
  *to = is_grpc ? o->grpc : o->http;
  options_unix_mode(o->unix_socket_mode, &to->listen.unix_mode);
  options_input_size(o, &max_input_size, &limit_whole_body);
  to->limit_whole_body = limit_whole_body;
  to->max_input_size = (size_t)max_input_size;
  to->held = p->handed != NULL;
  to->metrics_too = o->allow_metrics && o->metrics_on_http;
  to->config_dump = p->config_dump;
  to->orders = &p->orders;
  to->compression_level = compression_level(o->grpc_compression_level);
  to->busy_poll_us = o->http.busy_poll_us;
  to->tls = &rules->tls;
  to->access = &rules->access;
  to->forward = rules->forward;
  to->access_log = p->access_log;
  to->trace = p->trace;
  to->shared_memory = p->shared_memory;
  to->jobs = p->jobs;
  switch (which) {
  case PORT_HTTP:
    return o->allow_http;
  case PORT_GRPC:
    return o->allow_grpc;
  case PORT_ADMIN_HTTP:
    return set_admin(to, o->admin_address, p);
  case PORT_ADMIN_GRPC:
    return set_admin(to, o->admin_grpc_address, p);
  default:
    return set_metrics(to, o);
  }
}

// Sets *exposed to the clients that can reach it; leaves it unchanged where there is no port.
static error *open_port(ports *p, port which, exposure *exposed)
{
  const port_row *row = &rows[which];
  listener_options options;
  if (!read_options(p, which, &options))
    return NULL;
  if (row->protocol == NULL) {
    frontend_log_warning("gRPC is not served: %s", "this build is without it (NEREID_GRPC=OFF)");
    return NULL;
  }
  options.listen.given = p->given[which];
  options.listen.given_device = p->from[which].device;
  options.listen.given_file = p->from[which].file;
  if (p->is_inherited[which])
    options.listen.address = NULL;
  p->given[which] = 0;
  RETURN_IF_ERROR(listener_new(row->protocol, &options, p->server, &p->open[which]));
  const listen_socket *socket = &p->open[which]->socket;
  frontend_log_info("Started %s at %s%s", row->service, socket->where,
                    options.tls->certificate != NULL ? " with TLS" : "");
  if (which == PORT_METRICS)
    return NULL;
  *exposed = exposure_log(options.access, options.shared_memory, socket);
  return NULL;
}

static bool is_deferred(const ports *p, port which)
{
  return p->handed != NULL ||
         ((which == PORT_HTTP || which == PORT_GRPC) && strcmp(p->options->listen, "ready") == 0);
}

// A port in use must end the start before models load. Unix sockets are not reserved: another
// server would take the file for a leftover.
static error *reserve(ports *p, port which)
{
  listener_options options;
  if (!read_options(p, which, &options) || rows[which].protocol == NULL || p->given[which] > 0 ||
      listen_is_unix(options.listen.address))
    return NULL;
  return listen_reserve(&options.listen, &p->given[which]);
}

static error *open_those(ports *p, bool deferred, const char **what)
{
  exposure exposed[PORTS];
  for (port which = 0; which < PORTS; which++) {
    *what = rows[which].what;
    if (is_deferred(p, which) == deferred)
      RETURN_IF_ERROR(open_port(p, which, &exposed[which]));
    else if (!deferred)
      RETURN_IF_ERROR(reserve(p, which));
  }
  const exposure *const to_proxies[] = {p->open[PORT_HTTP] != NULL ? &exposed[PORT_HTTP] : NULL,
                                        p->open[PORT_GRPC] != NULL ? &exposed[PORT_GRPC] : NULL};
  exposure_log_proxy(to_proxies, 2);
  return NULL;
}

// The file's mode decides who may use the admin ports, so they must be Unix sockets.
static error *check_inherited(port which, int socket_fd)
{
  int domain = 0;
  socklen_t size = sizeof(domain);
  bool is_admin = which == PORT_ADMIN_HTTP || which == PORT_ADMIN_GRPC;
  if (!is_admin ||
      (getsockopt(socket_fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX))
    return NULL;
  return error_new(ERROR_INVALID_ARG, "the socket '%s' of the service manager: expected a Unix one",
                   rows[which].socket);
}

// Takes sockets only for ports that the flags turn on. The others get a warning.
static error *take_inherited(ports *p)
{
  listener_options unused;
  error *e = NULL;
  for (port which = 0; which < PORTS && e == NULL; which++) {
    if (!read_options(p, which, &unused) || rows[which].protocol == NULL)
      continue;
    p->given[which] = inherited_take(p->inherited, rows[which].socket);
    p->is_inherited[which] = p->given[which] > 0;
    if (p->is_inherited[which])
      e = check_inherited(which, p->given[which]);
  }
  inherited_free(p->inherited);
  p->inherited = NULL;
  return e;
}

// Takes those sockets of the running server that are at the addresses of the flags.
static void take_handed(ports *p)
{
  listener_options options;
  for (port which = 0; which < PORTS; which++) {
    if (!read_options(p, which, &options) || rows[which].protocol == NULL || p->given[which] > 0)
      continue;
    handover_socket *s = handover_find(p->handed, rows[which].socket);
    if (s == NULL || (!s->by_manager && !listen_is_at(&options.listen, s->fd, s->device, s->file)))
      continue;
    p->from[which] = *s;
    p->given[which] = s->fd;
    p->is_inherited[which] = s->by_manager;
    s->fd = -1;
  }
}

error *ports_open(ports *p, const char **what)
{
  *what = "taking the sockets of the service manager";
  RETURN_IF_ERROR(take_inherited(p));
  if (p->handed != NULL)
    take_handed(p);
  return open_those(p, false, what);
}

error *ports_open_deferred(ports *p, const char **what)
{
  return is_deferred(p, PORT_HTTP) ? open_those(p, true, what) : NULL;
}

// The metrics port has limits of its own.
void ports_set_limits(ports *p)
{
  listener_options options;
  for (port which = 0; which < PORTS; which++)
    if (which != PORT_METRICS && read_options(p, which, &options))
      listener_set_limits(p->open[which], &options);
}

// ---- upgrades ----

void ports_accept(ports *p)
{
  for (port which = 0; which < PORTS && p->handed != NULL; which++)
    listener_accept(p->open[which]);
}

void ports_list(const ports *p, handover_sockets *sockets)
{
  for (port which = 0; which < PORTS; which++) {
    const listener *l = p->open[which];
    if (l == NULL || sockets->count == HANDOVER_SOCKETS)
      continue;
    handover_socket *s = &sockets->of[sockets->count++];
    *s = (handover_socket){.by_manager = p->is_inherited[which],
                           .device = l->socket.device,
                           .file = l->socket.file,
                           .fd = l->socket.socket_fd};
    snprintf(s->name, sizeof(s->name), "%s", rows[which].socket);
  }
}

static listener *named(const ports *p, const char *name, port *which)
{
  for (*which = 0; *which < PORTS; ++*which)
    if (name != NULL && strcmp(rows[*which].socket, name) == 0)
      return p->open[*which];
  return NULL;
}

bool ports_is_handed(const ports *p, const char *name)
{
  port which;
  return named(p, name, &which) != NULL && p->from[which].name[0] != '\0';
}

void ports_lend(ports *p, const char *name)
{
  port which;
  listener *l = named(p, name, &which);
  if (l != NULL)
    listen_lend(&l->socket);
}

void ports_lend_all(ports *p)
{
  for (port which = 0; which < PORTS; which++)
    ports_lend(p, rows[which].socket);
}

static void retire(ports *p, port first, port last, bool all, uint64_t deadline_ns)
{
  for (port which = first; which <= last; which++)
    if (all || p->is_inherited[which])
      listener_retire(p->open[which], 0); // all stop accepting before the first one waits
  for (port which = first; which <= last; which++)
    if (all || p->is_inherited[which])
      listener_retire(p->open[which], deadline_ns);
}

void ports_retire(ports *p, uint64_t deadline_ns)
{
  retire(p, PORT_HTTP, PORT_METRICS, true, deadline_ns);
}

void ports_retire_inherited(ports *p, uint64_t deadline_ns)
{
  retire(p, PORT_HTTP, PORT_ADMIN_GRPC, false, deadline_ns);
}

void ports_retire_inherited_metrics(ports *p, uint64_t deadline_ns)
{
  retire(p, PORT_METRICS, PORT_METRICS, false, deadline_ns);
}

// ---- the end ----

void ports_announce_stop(ports *p)
{
  for (port which = 0; which < PORTS; which++)
    if (which != PORT_METRICS)
      listener_announce_stop(p->open[which]);
}

static size_t drain_two(ports *p, port front, port admin, uint64_t deadline_ns)
{
  return listener_drain(p->open[front], deadline_ns) + listener_drain(p->open[admin], deadline_ns);
}

size_t ports_drain(ports *p, uint64_t deadline_ns)
{
  drain_two(p, PORT_GRPC, PORT_ADMIN_GRPC, 0); // only begins, to run while HTTP is drained
  size_t requests = drain_two(p, PORT_HTTP, PORT_ADMIN_HTTP, deadline_ns);
  if (requests > 0)
    frontend_log_warning("%zu HTTP requests were not answered in time", requests);
  size_t calls = drain_two(p, PORT_GRPC, PORT_ADMIN_GRPC, deadline_ns);
  if (calls > 0)
    frontend_log_warning("%zu gRPC calls were not over in time", calls);
  return requests + calls;
}

void ports_close(ports *p)
{
  static const port order[PORTS] = {PORT_ADMIN_GRPC, PORT_ADMIN_HTTP, PORT_GRPC, PORT_HTTP,
                                    PORT_METRICS};
  for (size_t i = 0; i < PORTS; i++) {
    listener_free(p->open[order[i]]);
    if (p->given[order[i]] > 0)
      close(p->given[order[i]]);
  }
  inherited_free(p->inherited);
}
