// SPDX-License-Identifier: Apache-2.0
// A listener: one port and what serves it, whatever it speaks (HTTP, gRPC, metrics). The daemon
// makes it from options and a server of the north seam, and frees it before that server. Each
// protocol has a struct that begins with a listener, and a listener_protocol of what it does.
#ifndef NEREID_FRONTEND_COMMON_NET_LISTENER_H
#define NEREID_FRONTEND_COMMON_NET_LISTENER_H

#include "base/error.h"
#include "base/refcount.h"
#include "base/slice.h"
#include "frontend/common/net/budget.h"
#include "frontend/common/net/drain.h"
#include "frontend/common/net/jobs.h"
#include "frontend/common/net/listen.h"
#include "frontend/common/net/tls.h"
#include "triton/core/tritonserver.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What an operator has decided for all listeners together (/v2/nereid/drain). Any thread.
typedef struct listener_orders {
  _Atomic bool withdrawn; // the server says that it is not ready, and asks clients to close
  uint64_t started_ns;    // monotonic, set once: when the server began to start
} listener_orders;

// What flags set of a listener (docs/flags.md), and what it borrows. A limit or timeout of 0 is
// off, unless the field says otherwise. Read by all that is of the listener, never written.
typedef struct listener_options {
  listen_options listen;
  unsigned thread_count; // loop threads; 0: one for each processor, 2 at least, 8 at most
  // Open connections; 0: as many as there are descriptors (room.h). Further ones wait in the
  // backlog, but for those that HTTP takes for health and admin requests (CONNECTIONS_RESERVED).
  unsigned connection_limit;
  bool for_operators; // metrics, admin: its connections may have descriptors that clients leave
  size_t max_inflight_bytes; // of all requests that are held at one time, and as much again of
                             // their answers; 0: a quarter of the memory
  unsigned busy_poll_us;     // how long a loop polls for clients that come back at once
  unsigned body_timeout_ms;  // a request's body or message that makes no progress
  unsigned write_timeout_ms; // a client that does not take its reply

  // --- HTTP's

  // Bytes of the JSON part of a body, of a raw one, as sent and inflated, and of all tensors in
  // JSON; at least 1. Binary tensors behind a JSON part are bounded by max_inflight_bytes only,
  // unless the whole body is meant.
  size_t max_input_size;
  bool limit_whole_body;
  unsigned header_timeout_ms; // from the first byte of a request (or the connect) to its last
                              // header
  unsigned min_rate;          // bytes per second that are progress of a body or reply; 0: any
  unsigned idle_timeout_ms;   // a keep-alive connection between two requests
  bool metrics_too;           // GET /metrics beside the API
  slice config_dump;          // borrowed: the JSON of /v2/nereid/config_dump

  // --- gRPC's

  unsigned compression_level;    // of reply messages to clients that take it: 0 none to 3 high
  unsigned handshake_timeout_ms; // for TLS and HTTP/2's preface
  unsigned keepalive_time_ms;    // a connection that is silent for so long is asked for a sign
  unsigned keepalive_timeout_ms; // for it
  bool keepalive_without_calls;
  unsigned min_ping_interval_ms; // a client without calls that pings more often
  unsigned max_ping_strikes;     // so many times is sent away; 0: any
  unsigned max_connection_age_ms;
  unsigned max_connection_age_grace_ms;

  // --- Borrowed

  const tls_identity *tls;              // without a certificate: no TLS
  const struct access_policy *access;   // who may do what
  const struct header_forward *forward; // fields that become parameters; NULL: none
  struct access_log *access_log;        // NULL: none
  struct trace_service *trace;
  struct shared_memory *shared_memory; // of clients
  jobs *jobs;                          // for calls that may block, and long computations
  listener_orders *orders;             // NULL: there are none
} listener_options;

typedef struct listener listener;

typedef struct listener_protocol {
  const char *name;             // "HTTP"
  size_t size;                  // of the struct that begins with the listener
  error *(*start)(listener *l); // serves at once
  // Closes what accepts, and waits until all is answered or that moment of clock_monotonic_ns has
  // come. How many are not. May be called again. NULL of metrics, which stay to the end.
  size_t (*drain)(listener *l, uint64_t deadline_ns);
  // Ends the threads, and what is still in flight; after `start` has failed, too.
  void (*stop)(listener *l);
  void (*free)(listener *l); // nobody refers to it: frees what the protocol has made
} listener_protocol;

struct listener {
  const listener_protocol *protocol;
  listener_options options;    // without the address; its limits are numbers now
  TRITONSERVER_Server *server; // borrowed
  listen_socket socket;
  byte_budget budget;
  TRITONSERVER_ResponseAllocator *allocator; // for outputs; NULL: the protocol has made none

  refcount references;  // the owner's and one of each request: the core may keep a request longer
                        // than its reply
  _Atomic bool leaving; // not ready; HTTP's replies ask the client to close
  _Atomic size_t busy;  // requests that have to end before the listener does
  drain drain;          // of counts; once begun nothing new is accepted
};

// Opens the port and serves at once; models may still be loading. `server` is borrowed and must
// live until listener_free has returned. Errors: UNAVAILABLE "Socket '<address>:<port>' already in
// use ", INVALID_ARG for an address that is none, UNAVAILABLE when a thread cannot be started.
error *listener_new(const listener_protocol *protocol, const listener_options *options,
                    TRITONSERVER_Server *server, listener **result);

// All that follow take NULL for no listener.

// "<address>:<port>" or "unix:…"; lives as long as the listener. NULL for NULL.
const char *listener_where(const listener *l);

// Serves on, but says that it is not ready: so that whoever spreads requests over servers turns to
// others before listener_drain.
void listener_announce_stop(listener *l);

// Whether the listener says that it is not ready: the server stops, or an operator has withdrawn
// it. Any thread.
static inline bool listener_is_leaving(const listener *l)
{
  const listener_orders *orders = l->options.orders;
  return atomic_load_explicit(&l->leaving, memory_order_relaxed) ||
         (orders != NULL && atomic_load_explicit(&orders->withdrawn, memory_order_relaxed));
}

// Stops accepting, tells clients to go, and waits until every request in flight is answered or the
// monotonic moment `deadline_ns` (base/clock.h) has come. Returns how many are not. May be called
// again.
size_t listener_drain(listener *l, uint64_t deadline_ns);

// Stops all threads and closes what is open; requests still in flight are cancelled and waited
// for, since the core holds their buffers.
void listener_free(listener *l);

// --- For requests, on any thread

static inline void listener_ref(listener *l)
{
  refcount_take(&l->references);
}

void listener_unref(listener *l);

static inline void listener_busy(listener *l)
{
  atomic_fetch_add(&l->busy, 1);
}

static inline void listener_done(listener *l)
{
  drain_count_down(&l->drain, &l->busy);
}

#endif
