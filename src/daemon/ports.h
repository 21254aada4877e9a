// SPDX-License-Identifier: Apache-2.0
// The daemon's ports: which there are, what flags say of each, and their common life.
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
  const daemon_options *options; // borrowed, as all but the listeners
  const access_rules *rules;
  slice config_dump; // JSON of the flags
  listener_orders orders;
  TRITONSERVER_Server *server;
  access_log *access_log; // NULL: none
  trace_service *trace;
  shared_memory *shared_memory; // of clients
  jobs *jobs;
  listener *open[PORTS]; // NULL: none
  inherited *inherited;  // of the service manager; ports_open takes it over
  int given[PORTS];      // descriptors of those not open yet, inherited or reserved; 0
  bool is_inherited[PORTS];
} ports;

// Opens those that flags ask for; with --listen=ready HTTP's and gRPC's are only made sure of, and
// ports_open_deferred opens them. *what: how Triton calls what failed. ports_close whatever
// happens. INVALID_ARG for an inherited socket that is none for its port.
error *ports_open(ports *p, const char **what);
error *ports_open_deferred(ports *p, const char **what); // does nothing where none is

// The functions of listener.h, for all ports but the metrics', which serves on until it is closed.
void ports_announce_stop(ports *p);
size_t ports_drain(ports *p, uint64_t deadline_ns); // logs how many are not answered
void ports_close(ports *p);

#endif
