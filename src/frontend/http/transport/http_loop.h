// SPDX-License-Identifier: Apache-2.0
// The loop threads ("http-loop"). Each runs one libmicrohttpd daemon with its share of the
// connections. libmicrohttpd's own threads lose events when 128 come at once, write to a pipe for
// each resumed connection, and always sleep between requests. Waking a processor costs more than
// the rest of a small request, so a loop whose client comes back at once polls for a moment first
// (docs/performance.md).
#ifndef NEREID_FRONTEND_HTTP_TRANSPORT_HTTP_LOOP_H
#define NEREID_FRONTEND_HTTP_TRANSPORT_HTTP_LOOP_H

#include "base/error.h"
#include "frontend/common/net/listener.h"
#include "frontend/common/net/loop_core.h"
#include "frontend/http/transport/connections.h"
#include "frontend/http/transport/exchange_calls.h"

#include <stddef.h>

struct loop {
  loops *all;
  loop_core core; // its epoll set contains libmicrohttpd's
  struct MHD_Daemon *daemon;
  _Atomic bool closes_idle; // loops_close_idle was called
  _Atomic size_t open;      // its connections; set on the loop's thread

  uint64_t progress;    // counts steps of connections; loop thread only, as the next
  tls_loop tls;         // counts moved bytes, with TLS
  unsigned idle_passes; // passes in a row that had work but moved nothing
};

// All loops of a listener.
struct loops {
  listener *listener;
  const exchange_calls *calls;
  connections *connections;
  loop_group group;
  loop loops[];
};

// Starts the loops; the arguments are borrowed. UNAVAILABLE when a daemon or a thread cannot be
// started.
error *loops_new(listener *l, const exchange_calls *calls, connections *connections,
                 loops **result);

// Makes each loop call connections_close_idle after its current pass. Any thread.
void loops_close_idle(loops *all);

// Stops the threads and closes all connections. No connection may be suspended. NULL is allowed.
void loops_stop(loops *all);

// Frees the loops, once no thread can wake them any more. NULL is allowed.
void loops_free(loops *all);

#endif
