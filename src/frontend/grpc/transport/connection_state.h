// SPDX-License-Identifier: Apache-2.0
// A client's connection as its parts see it: what it is made of and at. Loop thread.
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
#define CONNECTION_HEADER_BYTES (16u << 10) // of one call's metadata

typedef enum connection_state {
  CONNECTION_BEGINS, // the client's preface and settings are to come
  CONNECTION_OPEN,
  CONNECTION_LEAVING, // the client was asked to go
  CONNECTION_LEFT,    // it was told which calls are taken yet
  CONNECTION_FAILED,  // nothing more is read; what HTTP/2 has to say about it is still sent
  CONNECTION_ENDING,  // all is sent; what still comes is dropped until the client closes
  CONNECTION_CLOSED,
} connection_state;

typedef struct grpc_connection grpc_connection;
struct grpc_connection {
  grpc_loop *loop;
  refcount references;
  connection_state state; // see connection_set_state
  list_node node;         // of all of the loop, or of those closed in this pass
  list_node marked;       // of those with something to send
  conn_wire wire;
  nghttp2_session *session;
  output output;
  bool watches_output;

  bool is_local;              // the client is on this machine
  bool is_unix;               // at a Unix socket
  char peer[PEER_TEXT_BYTES]; // its address

  list streams; // open ones
  size_t stream_count;
  size_t used;            // calls, requests and replies it has had
  size_t unsent;          // bytes of replies that HTTP/2 has not taken yet, of all calls
  _Atomic uint32_t alive; // calls that exist, closed streams' ones too
  budget_share share;     // calls, requests in flight, replies, what waits for the socket
  size_t output_counted;  // of that, bytes that wait for the socket

  uint64_t left_ns;  // when the client was asked to go; 0: it was not
  uint64_t ended_ns; // when it was ENDING
  uint64_t began_ns;
  uint64_t heard_ns;     // when something came last
  bool waits;            // for the client to take output
  uint64_t moved_ns;     // when some moved last, or there was none
  uint64_t pinged_ns;    // when a sign was asked for; 0: not waiting for one
  unsigned pings;        // that it has yet to answer
  uint64_t ping_came_ns; // the client's last
  unsigned strikes;      // of pings
  size_t header_bytes;   // of the header that is coming, as HPACK counts them
  double credit;         // of frames that do nothing
  uint64_t credit_ns;    // when it was counted
  conn_timer timer;      // the next thing to look after
};

// The only way from one state to another.
static inline void connection_set_state(grpc_connection *c, connection_state to)
{
#define TO(state) STATE_BIT(CONNECTION_##state)
  static const unsigned over = TO(FAILED) | TO(ENDING) | TO(CLOSED);
  static const unsigned allowed[] = {
      [CONNECTION_BEGINS] = TO(OPEN) | over,
      [CONNECTION_OPEN] = TO(LEAVING) | over,
      [CONNECTION_LEAVING] = TO(LEFT) | over,
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
