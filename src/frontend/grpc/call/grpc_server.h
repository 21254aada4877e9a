// The gRPC listener: KServe v2's GRPCInferenceService and gRPC's health service on one port
// (docs/grpc.md). The daemon makes it from options and a server of the north seam, and stops it
// before it stops that server.
#ifndef NEREID_FRONTEND_GRPC_GRPC_SERVER_H
#define NEREID_FRONTEND_GRPC_GRPC_SERVER_H

#include "base/error.h"
#include "frontend/common/net/jobs.h"
#include "frontend/common/net/tls.h"
#include "frontend/common/policy/access_policy.h"
#include "frontend/common/policy/header_forward.h"
#include "frontend/common/tensor/shared_memory.h"
#include "frontend/trace/trace.h"
#include "triton/core/tritonserver.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct access_log access_log;
typedef struct grpc_server grpc_server;
typedef struct exposure exposure;

// A limit or timeout of 0 is off, unless the field says otherwise.
typedef struct grpc_server_options {
  const char *address; // as http_server_options.address
  uint16_t port;       // 0: any free one
  bool reuse_port;
  unsigned backlog;
  unsigned unix_mode; // as listen_options

  unsigned thread_count;     // loop threads; 0: one for each processor, 2 at least, 8 at most
  unsigned connection_limit; // open connections; further ones wait in the backlog
  size_t max_inflight_bytes; // of all requests at one time, and as much again of their answers;
                             // 0: a quarter of the memory

  const tls_identity *tls;       // borrowed until grpc_server_new returns
  const access_policy *access;   // borrowed, as the next two
  const header_forward *forward; // NULL: none
  access_log *access_log;        // NULL: none; lives as long as the listener, as the next two
  trace_service *trace;
  shared_memory *shared_memory; // of clients
  jobs *jobs;                   // for calls that may block, and long messages

  unsigned compression_level; // of reply messages to clients that take it: 0 none to 3 high

  uint64_t keepalive_time_ms;    // a connection that is silent for so long is asked for a sign
  uint64_t keepalive_timeout_ms; // for it
  bool keepalive_without_calls;
  uint64_t min_ping_interval_ms; // a client without calls that pings more often
  unsigned max_ping_strikes;     // so many times is sent away; 0: any
  uint64_t max_connection_age_ms;
  uint64_t max_connection_age_grace_ms;

  uint64_t handshake_timeout_ms; // for TLS and HTTP/2's preface
  uint64_t body_timeout_ms;      // a request message that makes no progress
  uint64_t write_timeout_ms;     // a client that does not take its replies
  unsigned busy_poll_us;         // how long a loop polls for clients that come back at once
} grpc_server_options;

// Sets the defaults of docs/flags.md.
void grpc_server_options_init(grpc_server_options *options);

// Opens the port and serves at once; models may still be loading. `server` is borrowed and must
// live until grpc_server_free has returned. Errors as http_server_new.
error *grpc_server_new(const grpc_server_options *options, TRITONSERVER_Server *server,
                       grpc_server **result);

// As http_server_exposure.
const exposure *grpc_server_exposure(const grpc_server *g);
// As http_server_where.
const char *grpc_server_where(const grpc_server *g);

// Serves on, but says that it is not ready.
void grpc_server_announce_stop(grpc_server *g);

// Stops accepting, tells clients to go (GOAWAY), and waits until every call is over or the
// monotonic moment `deadline_ns` has come. Returns the number of calls that are left. May be called
// again.
size_t grpc_server_drain(grpc_server *g, uint64_t deadline_ns);

// Stops all threads and closes what is open; requests still in flight are cancelled and waited for.
// NULL is allowed.
void grpc_server_free(grpc_server *g);

#endif
