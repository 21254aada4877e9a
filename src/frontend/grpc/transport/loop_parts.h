// A loop and its siblings, for the two files that they are in (loop.c, loops.c).
#ifndef NEREID_FRONTEND_GRPC_TRANSPORT_LOOP_PARTS_H
#define NEREID_FRONTEND_GRPC_TRANSPORT_LOOP_PARTS_H

#include "base/list.h"
#include "base/mpsc.h"
#include "frontend/common/net/acceptor.h"
#include "frontend/common/net/loop_core.h"
#include "frontend/grpc/transport/conn_timer.h"
#include "frontend/grpc/transport/loop.h"

#include <stdatomic.h>
#include <stdbool.h>

struct grpc_loop {
  grpc_loops *all;
  loop_core core;
  mpsc woken; // streams

  conn_timers timers; // loop thread only, as what follows
  uint64_t now_ns;
  list connections;
  list marked;           // those with something to send
  list forgotten;        // those closed in this pass
  bool is_draining;      // its connections were told
  size_t used;           // by connections that are closed; see trim
  _Atomic size_t closed; // connections that are, and of which there are still calls
  conn_timer trim;
  conn_timer give_back; // of large blocks

  char read_buffer[LOOP_READ_BYTES];
};

struct grpc_loops {
  grpc_server *server;
  acceptor acceptor; // of the first loop's thread, as the next
  conn_timer accept_again;
  loop_group group;
  _Atomic bool draining;
  grpc_loop loops[];
};

// What its two timers do.
void grpc_loop_trim(conn_timer *elapsed);
void grpc_loop_give_back(conn_timer *elapsed);

#endif
