// SPDX-License-Identifier: Apache-2.0
// A loop, and what its connections and calls ask of it.
#ifndef NEREID_FRONTEND_GRPC_TRANSPORT_LOOP_H
#define NEREID_FRONTEND_GRPC_TRANSPORT_LOOP_H

#include "base/list.h"
#include "base/mpsc.h"
#include "frontend/common/net/acceptor.h"
#include "frontend/common/net/listener.h"
#include "frontend/common/net/loop_core.h"
#include "frontend/common/net/room.h"
#include "frontend/grpc/transport/conn_timer.h"
#include "frontend/grpc/transport/http2_stream.h"

#include <nghttp2/nghttp2.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct grpc_loops grpc_loops;
typedef struct tls_context tls_context;

#define LOOP_READ_BYTES ((size_t)64 << 10)

typedef struct grpc_loop {
  grpc_loops *all;
  loop_core core;
  mpsc woken; // streams

  conn_timers timers; // loop thread only, as the next
  uint64_t now_ns;    // when this pass began
  list connections;
  list marked;           // connections with something to send, or to give to HTTP/2
  list forgotten;        // connections closed in this pass
  bool is_draining;      // its connections were asked to leave
  _Atomic bool giving;   // silent connections must give way; set on any thread
  size_t used;           // by closed connections; see trim
  _Atomic size_t closed; // closed connections that calls still refer to
  conn_timer trim;
  conn_timer give_back; // frees large blocks

  char read_buffer[LOOP_READ_BYTES];
} grpc_loop;

// Shared by all loops of a listener.
struct grpc_loops {
  listener *listener;
  const stream_handlers *handlers; // the calls'
  nghttp2_session_callbacks *callbacks;
  nghttp2_option *session_options;
  tls_context *tls;             // NULL: plain
  _Atomic size_t connections;   // open ones
  _Atomic uint64_t last_cut_ns; // when the log last had refused answers
  acceptor acceptor;            // first loop's thread only, as the next
  conn_timer accept_again;
  room_giver giver;
  loop_group group;
  _Atomic bool draining;
  _Atomic bool retiring; // another process accepts; set before `draining`
  _Atomic bool accepts;  // grpc_loops_accept was called
  grpc_loop loops[];
};

// Call before the loop's thread runs.
void grpc_loop_init(grpc_loop *l, grpc_loops *all);

// Makes the loop call handlers->woken soon; not to be called again before that. The caller
// references the stream until then. Any thread.
void grpc_loop_wake_stream(grpc_loop *l, grpc_stream *s);

// Counts a closed connection. Any thread.
void grpc_loops_record_closed(grpc_loops *all);

// Counts a closed connection that is freed. Any thread.
void grpc_loop_freed(grpc_loop *l);

// --- On the loop's thread

// At the end of this pass, gives the connection's data to HTTP/2 and the socket.
void grpc_loop_mark(grpc_loop *l, grpc_connection *c);

// A large message came: frees kept blocks a moment later.
void grpc_loop_record_large(grpc_loop *l);

// The connection is closed: unlinks it; it is freed after the pass.
void grpc_loop_forget(grpc_loop *l, grpc_connection *c);

// Chooses whether the loop watches the socket for output too. False and errno on failure.
bool grpc_loop_watch(grpc_loop *l, grpc_connection *c, bool for_output);

#endif
