// SPDX-License-Identifier: Apache-2.0
// A listener: one port and all that serves it, in any protocol (HTTP, gRPC, metrics). The daemon
// makes it from options and a server of the north seam, and frees it before that server. Each
// protocol has a struct that begins with a listener, and a listener_protocol.
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
  _Atomic bool drained; // the server says that it is not ready, and asks clients to close
  uint64_t started_ns;  // monotonic, set once: when the server began to start
} listener_orders;

// The values of flags for a listener (docs/flags.md), and borrowed objects. A limit or timeout of 0
// is off, unless the field says otherwise. Constant after listener_new, except those that
// listener_set_limits changes: these are atomic.
typedef struct listener_options {
  listen_options listen;
  bool held;             // accepts nobody before listener_accept
  unsigned thread_count; // loop threads; 0: one for each processor, 2 at least, 8 at most
  // Open connections; 0: as many as there are descriptors (room.h). Further ones wait in the
  // backlog, except those that HTTP takes for health and admin requests (CONNECTIONS_RESERVED).
  _Atomic unsigned connection_limit;
  bool for_operators; // metrics, admin: may use descriptors that are kept from clients
  _Atomic size_t max_inflight_bytes; // of all requests held at a time, and as much again for their
                                     // answers; 0: a quarter of the memory
  unsigned busy_poll_us;             // how long a loop polls for clients that come back at once
  _Atomic unsigned body_timeout_ms;  // for a request's body or message without progress
  _Atomic unsigned write_timeout_ms; // for a client that does not take its reply

  // --- HTTP's

  // Bytes of a body's JSON part, of a raw body as sent and inflated, and of all tensors in JSON; at
  // least 1. Binary tensors behind a JSON part are bounded by max_inflight_bytes only, unless
  // limit_whole_body is set.
  _Atomic size_t max_input_size;
  _Atomic bool limit_whole_body;
  _Atomic unsigned
      header_timeout_ms;     // from a request's first byte (or the connect) to its last header
  _Atomic unsigned min_rate; // bytes per second that count as progress of a body or reply; 0: any
  _Atomic unsigned idle_timeout_ms; // of a keep-alive connection between two requests
  bool metrics_too;                 // GET /metrics beside the API
  slice config_dump;                // borrowed: the JSON of /v2/nereid/config_dump

  // --- gRPC's

  unsigned compression_level; // of reply messages, for clients that accept it: 0 none to 3 high
  _Atomic unsigned handshake_timeout_ms; // for TLS and HTTP/2's preface
  _Atomic unsigned keepalive_time_ms;    // a connection that is silent for this long gets a ping
  _Atomic unsigned keepalive_timeout_ms; // for the answer to that ping
  _Atomic bool keepalive_without_calls;
  _Atomic unsigned min_ping_interval_ms; // shortest time between a client's pings without data
  _Atomic unsigned
      max_ping_strikes; // pings below that time until the connection is closed; 0: any number
  _Atomic unsigned max_connection_age_ms;
  _Atomic unsigned max_connection_age_grace_ms;

  // --- Borrowed

  const tls_identity *tls;              // without a certificate: no TLS
  const struct access_policy *access;   // who may do what
  const struct header_forward *forward; // header fields that become parameters; NULL: none
  struct access_log *access_log;        // NULL: none
  struct trace_service *trace;
  struct shared_memory *shared_memory; // memory that clients share
  jobs *jobs;                          // for calls that may block, and long computations
  listener_orders *orders;             // NULL: there are none
} listener_options;

typedef struct listener listener;

typedef struct listener_protocol {
  const char *name;             // "HTTP"
  size_t size;                  // of the struct that begins with the listener
  error *(*start)(listener *l); // opens the service at once
  void (*accept)(listener *l);  // begins to accept, for options.held
  // Stops accepting, asks the clients to go, and waits for that until `deadline_ns`. May be called
  // again.
  void (*retire)(listener *l, uint64_t deadline_ns);
  // Stops accepting, and waits until all is answered or `deadline_ns` (clock_monotonic_ns) has
  // passed. Returns how many requests are unanswered. May be called again. NULL for metrics, which
  // serve to the end.
  size_t (*drain)(listener *l, uint64_t deadline_ns);
  // Ends the threads and all requests in flight; also called after `start` has failed.
  void (*stop)(listener *l);
  void (*free)(listener *l); // the last reference is gone: frees what the protocol made
} listener_protocol;

struct listener {
  const listener_protocol *protocol;
  listener_options options;    // without the address; defaults of the machine are filled in
  TRITONSERVER_Server *server; // borrowed
  listen_socket socket;
  byte_budget budget;
  TRITONSERVER_ResponseAllocator *allocator; // for outputs; NULL: the protocol has made none

  refcount references;  // the owner's and one for each request, which the core may keep longer than
                        // its reply
  _Atomic bool leaving; // the server reports not ready; HTTP's replies ask the client to close
  _Atomic bool retired; // another process serves here: HTTP's replies ask the client to close
  _Atomic size_t busy;  // requests that must end before the listener does
  drain drain;          // waits for counts; once it has begun, nothing new is accepted
};

// Opens the port and serves at once, even while models are loading. `server` is borrowed and must
// live until listener_free has returned. Errors: UNAVAILABLE "Socket '<address>:<port>' already in
// use ", INVALID_ARG for an address that is none, UNAVAILABLE when a thread cannot be started.
error *listener_new(const listener_protocol *protocol, const listener_options *options,
                    TRITONSERVER_Server *server, listener **result);

// The following functions accept NULL: no listener.

// Takes over the limits and timeouts of `options`, while the listener serves. What began under
// another limit may end under it. One thread at a time.
void listener_set_limits(listener *l, const listener_options *options);

// "<address>:<port>" or "unix:…"; lives as long as the listener. NULL for NULL.
const char *listener_where(const listener *l);

// Reports that the server is not ready but goes on serving, so that load balancers turn to other
// servers before listener_drain.
void listener_announce_stop(listener *l);

// Whether the listener says that it is not ready: the server stops, or an operator has drained
// it. Any thread.
static inline bool listener_is_leaving(const listener *l)
{
  const listener_orders *orders = l->options.orders;
  return atomic_load_explicit(&l->leaving, memory_order_relaxed) ||
         (orders != NULL && atomic_load_explicit(&orders->drained, memory_order_relaxed));
}

// Whether HTTP's replies ask clients to close the connection. Any thread.
static inline bool listener_sends_away(const listener *l)
{
  return listener_is_leaving(l) || atomic_load_explicit(&l->retired, memory_order_relaxed);
}

// Begins to accept, where options.held is set. Cannot fail.
void listener_accept(listener *l);

// Another process serves this address from now on: leaves new connections to it, and waits until
// all clients have gone there or `deadline_ns` (clock_monotonic_ns) has passed. The server goes on
// to answer, and says nothing about not being ready. Clients learn with their next reply (HTTP) or
// by GOAWAY (gRPC) that they are to connect anew; no connection is closed that was used in the last
// LISTENER_QUIET_MS. A deadline of 0 only begins. listener_drain comes after it.
#define LISTENER_QUIET_MS 5000
void listener_retire(listener *l, uint64_t deadline_ns);

// Stops accepting, tells clients to go, and waits until every request in flight is answered or
// `deadline_ns` (clock_monotonic_ns) has passed. Returns how many are unanswered. May be called
// again.
size_t listener_drain(listener *l, uint64_t deadline_ns);

// Stops all threads and closes all connections. Cancels requests in flight and waits for them,
// because the core holds their buffers.
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
