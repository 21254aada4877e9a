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

typedef struct loops loops;

// Starts the loops of a listener; all but the result is borrowed. UNAVAILABLE when a daemon or a
// thread cannot be started.
error *loops_new(listener *l, const exchange_calls *calls, connections *connections,
                 loops **result);

// Gives a socket to one of the loops. Any thread.
void loops_adopt(loops *all, arrival *arrival_owned);

// Sockets that were adopted and are not yet connections.
size_t loops_arriving(loops *all);

// Has each loop close its connections that have no request, and none on its way, after the pass
// that it is in. Any thread.
void loops_close_idle(loops *all);

// Stops the threads and closes all connections. No connection may be suspended. NULL is allowed.
void loops_stop(loops *all);

// Frees what loop_wake touches, once nobody can call it any more. NULL is allowed.
void loops_free(loops *all);

// Makes the loop look at its connections soon: one was resumed. Any thread.
void loop_wake(loop *l);

// Says that the loop's connections made progress; on the loop's thread.
void loop_progressed(loop *l);

// A request is waited for from now on: the core or a job has it; or no longer. On the loop's
// thread.
void loop_handed_over(loop *l);
void loop_took_back(loop *l);

listener *loop_listener(const loop *l);

#endif
