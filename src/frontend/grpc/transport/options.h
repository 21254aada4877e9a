// What a gRPC listener is made with (docs/flags.md). Read by all that is of it, never written.
#ifndef NEREID_FRONTEND_GRPC_TRANSPORT_OPTIONS_H
#define NEREID_FRONTEND_GRPC_TRANSPORT_OPTIONS_H

#include "frontend/common/net/jobs.h"
#include "frontend/common/net/tls.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct access_log access_log;
typedef struct access_policy access_policy;
typedef struct header_forward header_forward;
typedef struct shared_memory shared_memory;
typedef struct trace_service trace_service;

// A limit or timeout of 0 is off, unless the field says otherwise.
typedef struct grpc_server_options {
  const char *address; // as http_server_options.address
  uint16_t port;       // 0: any free one
  bool reuse_port;
  unsigned backlog;
  unsigned unix_mode; // as listen_options

  unsigned thread_count;     // loop threads; 0: one for each processor, 2 at least, 8 at most
  unsigned connection_limit; // open connections; further ones wait in the backlog
  size_t max_inflight_bytes; // of all requests at one time, and as much again of their replies;
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

#endif
