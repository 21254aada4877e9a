// SPDX-License-Identifier: Apache-2.0
// The fields and states of a client's connection, for the files that handle it. Loop thread.
#ifndef NEREID_FRONTEND_GRPC_TRANSPORT_CONNECTION_STATE_H
#define NEREID_FRONTEND_GRPC_TRANSPORT_CONNECTION_STATE_H

#include "base/list.h"
#include "base/refcount.h"
#include "base/state.h"
#include "frontend/common/net/budget_share.h"
#include "frontend/common/net/peer.h"
#include "frontend/grpc/transport/conn_wire.h"
#include "frontend/grpc/transport/loop.h"
#include "frontend/grpc/transport/output.h"

#include <nghttp2/nghttp2.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define CONNECTION_MAX_STREAMS  1024u
#define CONNECTION_STREAM_BYTES (1u << 20)  // window of one stream
#define CONNECTION_BYTES        (16u << 20) // window of all of them
#define CONNECTION_FRAME_BYTES  (256u << 10)
#define CONNECTION_HEADER_BYTES (16u << 10) // of a call's metadata

typedef enum connection_state {
  CONNECTION_BEGINS, // waits for the client's preface and settings
  CONNECTION_OPEN,
  CONNECTION_LEAVING, // the client is to leave, and is not told yet
  CONNECTION_TOLD,    // the client was asked to leave
  CONNECTION_LEFT,    // the client was told which calls are accepted
  CONNECTION_FAILED,  // nothing more is read; HTTP/2's last frames are still sent
  CONNECTION_ENDING,  // all is sent; input is dropped until the client closes
  CONNECTION_CLOSED,
} connection_state;

typedef struct grpc_connection grpc_connection;
struct grpc_connection {
  grpc_loop *loop;
  refcount references;
  connection_state state; // see connection_set_state
  list_node node;         // in the loop's connections, or in those closed in this pass
  list_node marked;       // in the loop's list of connections with something to send
  conn_wire wire;
  nghttp2_session *session;
  output output;
  bool watches_output;

  bool is_local;              // the client is on this machine
  bool is_unix;               // the client came by a Unix socket
  char peer[PEER_TEXT_BYTES]; // its address

  list streams; // open ones
  size_t stream_count;
  size_t used;            // number of calls, requests and replies so far
  size_t unsent;          // bytes of all calls' replies that HTTP/2 has not taken yet
  _Atomic uint32_t alive; // existing calls, even if their streams are closed
  budget_share share;     // calls, requests in flight, replies, output
  size_t output_counted;  // part of the share: bytes that wait for the socket

  uint64_t left_ns;  // when it was to leave; 0: not yet
  uint64_t ended_ns; // when it became ENDING
  uint64_t began_ns;
  uint64_t heard_ns;     // last input
  bool waits;            // output waits for the client
  uint64_t moved_ns;     // when output last moved, or began to wait
  uint64_t pinged_ns;    // when a keepalive ping was sent; 0: none is unanswered
  unsigned pings;        // sent and not answered
  uint64_t ping_came_ns; // the client's last ping
  unsigned strikes;      // pings that came too soon
  size_t header_bytes;   // of the header that is coming, as HPACK counts them
  double credit;         // frames without effect that the client may still send
  uint64_t credit_ns;    // when `credit` was updated
  conn_timer timer;      // for the next check
};

// Changes the state; asserts that the change is allowed.
static inline void connection_set_state(grpc_connection *c, connection_state to)
{
#define TO(state) STATE_BIT(CONNECTION_##state)
  static const unsigned over = TO(FAILED) | TO(ENDING) | TO(CLOSED);
  static const unsigned allowed[] = {
      [CONNECTION_BEGINS] = TO(OPEN) | over,
      [CONNECTION_OPEN] = TO(LEAVING) | over,
      [CONNECTION_LEAVING] = TO(TOLD) | over,
      [CONNECTION_TOLD] = TO(LEFT) | over,
      [CONNECTION_LEFT] = over,
      [CONNECTION_FAILED] = TO(ENDING) | TO(CLOSED),
      [CONNECTION_ENDING] = TO(CLOSED),
      [CONNECTION_CLOSED] = 0,
  };
#undef TO
  state_assert(allowed, c->state, to);
  c->state = to;
}

static inline bool connection_is_closed(const grpc_connection *c)
{
  return c->state == CONNECTION_CLOSED;
}

#endif
