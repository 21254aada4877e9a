// SPDX-License-Identifier: Apache-2.0
// The daemon's ports: which exist, what the flags say about each, and how they open and close.
#ifndef NEREID_DAEMON_PORTS_H
#define NEREID_DAEMON_PORTS_H

#include "base/error.h"
#include "daemon/access_rules.h"
#include "daemon/handover_message.h"
#include "daemon/inherited.h"
#include "daemon/options.h"
#include "frontend/common/net/listener.h"
#include "triton/core/tritonserver.h"

#include <stddef.h>
#include <stdint.h>

typedef struct access_log access_log;
typedef struct shared_memory shared_memory;
typedef struct trace_service trace_service;

// In the order in which they open.
typedef enum port {
  PORT_HTTP,
  PORT_GRPC,
  PORT_ADMIN_HTTP, // at the admin addresses
  PORT_ADMIN_GRPC,
  PORT_METRICS,
  PORTS,
} port;

typedef struct ports {
  const daemon_options *options; // borrowed, as all members except the listeners
  const access_rules *rules;
  slice config_dump; // JSON of the flags
  listener_orders orders;
  TRITONSERVER_Server *server;
  access_log *access_log; // NULL: none
  trace_service *trace;
  shared_memory *shared_memory; // of clients
  jobs *jobs;
  listener *open[PORTS]; // NULL: none
  inherited *inherited;  // sockets of the service manager; ports_open takes them over
  int given[PORTS]; // descriptors, inherited or reserved, of ports that are not open yet; 0: none
  bool is_inherited[PORTS];
  handover_sockets *handed;    // sockets of the server that ran before (--upgrade); NULL: none
  handover_socket from[PORTS]; // what was taken of them; without a name: nothing
} ports;

// Opens the ports that the flags ask for. With --listen=ready the ports of HTTP and gRPC are only
// reserved, and ports_open_deferred opens them; the same for all ports at an upgrade, which then
// accept nobody before ports_accept. *what: Triton's name for the step that failed. Call
// ports_close even after an error. INVALID_ARG for an inherited socket that does not fit its port.
error *ports_open(ports *p, const char **what);
error *ports_open_deferred(ports *p, const char **what); // does nothing where no port was deferred

// As in listener.h, for all ports except the metrics port, which serves until it is closed.
void ports_announce_stop(ports *p);
size_t ports_drain(ports *p, uint64_t deadline_ns); // logs how many requests are unanswered
void ports_close(ports *p);

// Takes over the limits and timeouts of the flags, which have changed.
void ports_set_limits(ports *p);

// ---- upgrades ----

void ports_accept(ports *p); // after ports_open_deferred, where `handed` is set

// The open ports' sockets, which stay the ports'.
void ports_list(const ports *p, handover_sockets *sockets);

bool ports_is_handed(const ports *p, const char *name); // the port has a socket out of `handed`

// The files of Unix sockets pass to another process: of one port (NULL or an unknown name: none),
// or of all.
void ports_lend(ports *p, const char *name);
void ports_lend_all(ports *p);

// Another process serves: waits until the clients have gone there, as listener_retire does.
void ports_retire(ports *p, uint64_t deadline_ns);

// The same for the service manager's sockets alone, which outlive this server; for metrics apart,
// since they stay up during a stop.
void ports_retire_inherited(ports *p, uint64_t deadline_ns);
void ports_retire_inherited_metrics(ports *p, uint64_t deadline_ns);

#endif
