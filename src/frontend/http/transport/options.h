// What an HTTP listener is told: the daemon fills it in.
#ifndef NEREID_FRONTEND_HTTP_TRANSPORT_OPTIONS_H
#define NEREID_FRONTEND_HTTP_TRANSPORT_OPTIONS_H

#include "frontend/common/net/jobs.h"
#include "frontend/common/net/tls.h"
#include "frontend/common/policy/access_policy.h"
#include "frontend/common/policy/header_forward.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct access_log access_log;       // frontend/common/observe/access_log.h
typedef struct trace_service trace_service; // frontend/trace/trace.h

// A limit or timeout of 0 is off, unless the field says otherwise.
typedef struct http_server_options {
  const char *address; // "0.0.0.0", "::", a host's name, "unix:<path>" (listen.h); copied
  uint16_t port;       // 0: any free one; the log says which
  bool reuse_port;     // share the port with other processes (SO_REUSEPORT)
  unsigned backlog;    // connections that wait to be accepted
  unsigned unix_mode;  // permissions of a Unix socket's file; 0: as the umask says
  bool only_metrics;   // GET /metrics and nothing else

  unsigned thread_count; // loop threads; 0: one for each processor, 2 at least, 8 at most
  // Open connections; 0: as many as there are descriptors. The first further ones are for health
  // and admin requests (CONNECTIONS_RESERVED), the rest wait in the backlog.
  unsigned connection_limit;

  // Bytes of the JSON part of a body, of a raw one, as sent and inflated, and of all tensors in
  // JSON; at least 1. Binary tensors behind a JSON part are bounded by max_inflight_bytes only,
  // unless the whole body is meant.
  size_t max_input_size;
  bool limit_whole_body;
  size_t max_inflight_bytes; // bytes of all requests that are held at one time, and as much again
                             // of their answers; 0: a quarter of the memory

  unsigned
      header_timeout_ms;     // from the first byte of a request (or the connect) to its last header
  unsigned body_timeout_ms;  // a body that makes no progress
  unsigned write_timeout_ms; // a client that does not take its reply
  unsigned min_rate;         // bytes per second that are progress of a body or reply; 0: any
  unsigned idle_timeout_ms;  // a keep-alive connection between two requests

  const access_policy *access; // who may do what; NULL: everybody everything but bring code
  // borrowed; NULL: none
  const header_forward *forward; // fields of an inference that become parameters
  const tls_identity *tls;       // without a certificate: no TLS

  struct shared_memory *shared_memory; // of clients; borrowed, lives as long as `server`

  access_log *access_log; // NULL: none; borrowed, must live as long as the listener

  trace_service *trace; // borrowed; which requests are traced, and the trace extension

  jobs *jobs; // borrowed; for calls that may block, and long computations

  unsigned busy_poll_us; // how long a loop polls for clients that come back at once
} http_server_options;

// Sets the defaults of docs/flags.md.
void http_server_options_init(http_server_options *options);

#endif
