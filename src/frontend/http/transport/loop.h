// SPDX-License-Identifier: Apache-2.0
// The loop threads ("http-loop"): each runs one libmicrohttpd daemon and the connections that it
// was given, in turn. libmicrohttpd's own threads would do, but they lose events when 128 come at
// once, write a pipe for each resumed connection, and always sleep between two requests: waking a
// processor costs more than the rest of a small request, so a loop whose clients come back at once
// polls for a moment first (docs/performance.md).
#ifndef NEREID_FRONTEND_HTTP_TRANSPORT_LOOP_H
#define NEREID_FRONTEND_HTTP_TRANSPORT_LOOP_H

#include "base/error.h"
#include "frontend/common/net/listener.h"
#include "frontend/common/net/loop_core.h"
#include "frontend/http/transport/connections.h"
#include "frontend/http/transport/exchange_calls.h"

#include <stddef.h>

struct loop {
  loops *all;
  loop_core core; // its epoll set has libmicrohttpd's in it
  struct MHD_Daemon *daemon;
  _Atomic bool closes_idle; // loops_close_idle was called

  uint64_t progress;    // steps of connections so far; loop thread only, as what follows
  tls_loop tls;         // moves of bytes, when there is TLS
  unsigned idle_passes; // in a row that moved nothing though there was work
};

// All loops of a listener.
struct loops {
  listener *listener;
  const exchange_calls *calls;
  connections *connections;
  loop_group group;
  loop loops[];
};

// Starts the loops; all but the result is borrowed. UNAVAILABLE when a daemon or a thread cannot be
// started.
error *loops_new(listener *l, const exchange_calls *calls, connections *connections,
                 loops **result);

// Has each loop close its connections that have no request, and none on its way, after the pass
// that it is in. Any thread.
void loops_close_idle(loops *all);

// Stops the threads and closes all connections. No connection may be suspended. NULL is allowed.
void loops_stop(loops *all);

// Frees what wakes touch, once nobody can wake a loop any more. NULL is allowed.
void loops_free(loops *all);

#endif
