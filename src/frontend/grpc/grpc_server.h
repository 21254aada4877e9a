// The gRPC listener: KServe v2's GRPCInferenceService and gRPC's health service on one port
// (docs/grpc.md). The daemon makes it from options and a server of the north seam, and stops it
// before it stops that server. It is a shared object of its own, so that a server without gRPC does
// not load HTTP/2's library; `nereid_grpc_front_end` is its only symbol.
#ifndef NEREID_FRONTEND_GRPC_GRPC_SERVER_H
#define NEREID_FRONTEND_GRPC_GRPC_SERVER_H

#include "base/error.h"
#include "triton/core/tritonserver.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct grpc_server grpc_server;

// A limit or timeout of 0 is off, unless the field says otherwise.
typedef struct grpc_server_options {
  const char *address; // as http_server_options.address
  uint16_t port;       // 0: any free one
  bool reuse_port;
  unsigned backlog;

  unsigned thread_count;     // loop threads; 0: one for each processor, 2 at least, 8 at most
  unsigned connection_limit; // open connections; further ones wait in the backlog
  size_t max_inflight_bytes; // of all requests at one time, and as much again of their answers;
                             // 0: a quarter of the memory

  bool use_tls;
  bool require_client_certificate; // mutual TLS
  const char *certificate_file;    // PEM, as the next two; of the server
  const char *key_file;
  const char *root_file; // whose client certificates are taken

  unsigned compression_level; // of reply messages to clients that take it: 0 none to 3 high

  uint64_t keepalive_time_ms;    // a connection that is silent for so long is asked for a sign
  uint64_t keepalive_timeout_ms; // for it
  bool keepalive_without_calls;
  uint64_t min_ping_interval_ms; // a client without calls that pings more often
  unsigned max_ping_strikes;     // so many times is sent away; 0: any
  uint64_t max_connection_age_ms;
  uint64_t max_connection_age_grace_ms;

  uint64_t handshake_timeout_ms; // for TLS and HTTP/2's preface
  uint64_t write_timeout_ms;     // a client that does not take its replies
  unsigned busy_poll_us;         // how long a loop polls for clients that come back at once

  bool admin_local_only;   // admin categories are for clients on this machine
  bool allow_model_upload; // loads may bring code from other machines
} grpc_server_options;

typedef struct grpc_front_end {
  // Sets the defaults of docs/grpc.md.
  void (*options_init)(grpc_server_options *options);

  // Opens the port and serves at once. `server` is borrowed and must live until free has returned.
  // Errors as http_server_new.
  error *(*start)(const grpc_server_options *options, TRITONSERVER_Server *server,
                  grpc_server **result);

  uint16_t (*port)(const grpc_server *g);

  // Serves on, but says that it is not ready.
  void (*announce_stop)(grpc_server *g);

  // Stops accepting, tells clients to go (GOAWAY), and waits until every call is over or the
  // monotonic moment has come. Returns the number of calls that are left. May be called again.
  size_t (*drain)(grpc_server *g, uint64_t deadline_ns);

  // Stops all threads and closes what is open; requests still in flight are cancelled and waited
  // for. NULL is allowed.
  void (*free)(grpc_server *g);
} grpc_front_end;

extern const grpc_front_end nereid_grpc_front_end;

#endif
