// SPDX-License-Identifier: Apache-2.0
// The daemon's ports: which exist, what the flags say about each, and how they open and close.
#ifndef NEREID_DAEMON_PORTS_H
#define NEREID_DAEMON_PORTS_H

#include "base/error.h"
#include "daemon/access_rules.h"
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
} ports;

// Opens the ports that the flags ask for. With --listen=ready the ports of HTTP and gRPC are only
// reserved, and ports_open_deferred opens them. *what: Triton's name for the step that failed. Call
// ports_close even after an error. INVALID_ARG for an inherited socket that does not fit its port.
error *ports_open(ports *p, const char **what);
error *ports_open_deferred(ports *p, const char **what); // does nothing where no port was deferred

// As in listener.h, for all ports except the metrics port, which serves until it is closed.
void ports_announce_stop(ports *p);
size_t ports_drain(ports *p, uint64_t deadline_ns); // logs how many requests are unanswered
void ports_close(ports *p);

#endif
