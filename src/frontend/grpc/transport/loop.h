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
#include "frontend/grpc/transport/stream.h"

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

  conn_timers timers; // loop thread only, as what follows
  uint64_t now_ns;    // when this pass began
  list connections;
  list marked;           // those with something to send or to hand to HTTP/2
  list forgotten;        // those closed in this pass
  bool is_draining;      // its connections were told
  _Atomic bool giving;   // silent connections are to give way; any thread
  size_t used;           // by connections that are closed; see trim
  _Atomic size_t closed; // connections that are, and of which there are still calls
  conn_timer trim;
  conn_timer give_back; // of large blocks

  char read_buffer[LOOP_READ_BYTES];
} grpc_loop;

// What all loops of a listener share.
struct grpc_loops {
  listener *listener;
  const stream_handlers *handlers; // the calls'
  nghttp2_session_callbacks *callbacks;
  nghttp2_option *session_options;
  tls_context *tls;             // NULL: plain
  _Atomic size_t connections;   // open ones
  _Atomic uint64_t last_cut_ns; // when it was last logged that answers are refused
  acceptor acceptor;            // of the first loop's thread, as the next
  conn_timer accept_again;
  room_giver giver;
  loop_group group;
  _Atomic bool draining;
  grpc_loop loops[];
};

// Before the loop's thread runs.
void grpc_loop_init(grpc_loop *l, grpc_loops *all);

// Has the loop call handlers->woken soon. Not again before that, and the stream is referenced until
// then. Any thread.
void grpc_loop_wake_stream(grpc_loop *l, grpc_stream *s);

// A connection of a listener is closed. Any thread.
void grpc_loops_record_closed(grpc_loops *all);

// A connection that was closed is no more. Any thread.
void grpc_loop_freed(grpc_loop *l);

// --- On the loop's thread

// The connection has something to send or to hand to HTTP/2: seen to at the end of the pass.
void grpc_loop_mark(grpc_loop *l, grpc_connection *c);

// A large message came: what its memory leaves behind is given back a moment later.
void grpc_loop_record_large(grpc_loop *l);

// The connection is closed: nobody calls it any more.
void grpc_loop_forget(grpc_loop *l, grpc_connection *c);

// Watches the socket for more than input, or no longer.
bool grpc_loop_watch(grpc_loop *l, grpc_connection *c, bool for_output);

#endif
