// The gRPC listener as flags say it. A build without it (NEREID_GRPC=OFF) serves the rest.
#ifndef NEREID_DAEMON_GRPC_PORT_H
#define NEREID_DAEMON_GRPC_PORT_H

#include "base/error.h"
#include "daemon/access_rules.h"
#include "daemon/options.h"
#include "frontend/common/net/jobs.h"
#include "frontend/common/policy/exposure.h"
#include "frontend/common/tensor/shared_memory.h"
#include "frontend/trace/trace.h"
#include "triton/core/tritonserver.h"

#include <stddef.h>
#include <stdint.h>

typedef struct access_log access_log;
typedef struct grpc_server grpc_server;

// What the listener borrows.
typedef struct grpc_port_parts {
  const daemon_options *options;
  const access_rules *rules;
  shared_memory *shared_memory;
  TRITONSERVER_Server *server;
  access_log *access_log;
  trace_service *trace;
  jobs *jobs;
} grpc_port_parts;

// As grpc_server_new; `admin`: at the admin address. In a build without gRPC *result is NULL, and a
// line in the log says so.
error *grpc_port_open(const grpc_port_parts *parts, bool admin, grpc_server **result);

// As the functions of grpc_server.h, with NULL for a listener that there is not.
const exposure *grpc_port_exposure(const grpc_server *g);
const char *grpc_port_where(const grpc_server *g); // NULL for NULL
void grpc_port_announce_stop(grpc_server *g);
size_t grpc_port_drain(grpc_server *g, uint64_t deadline_ns);
void grpc_port_close(grpc_server *g);

#endif
