// SPDX-License-Identifier: Apache-2.0
// The loop threads ("grpc-loop"). Each waits for its connections' sockets, for calls woken by other
// threads, and for timers. If its client comes back at once, it polls for a moment before it sleeps
// (docs/performance.md).
#ifndef NEREID_FRONTEND_GRPC_TRANSPORT_LOOPS_H
#define NEREID_FRONTEND_GRPC_TRANSPORT_LOOPS_H

#include "base/error.h"
#include "frontend/grpc/transport/loop.h"

// Starts the threads; the first one accepts from the listener's socket.
error *grpc_loops_new(listener *l, const stream_handlers *handlers, grpc_loops **result);

// Makes the first loop accept, where options.held is set. Any thread.
void grpc_loops_accept(grpc_loops *all);

// As grpc_loops_drain, but leaves the backlog to another process, and lets clients finish that have
// only begun to connect. Any thread, idempotent, before grpc_loops_drain.
void grpc_loops_retire(grpc_loops *all);

// Closes the listening socket and asks all clients to leave (GOAWAY); connections without calls
// close. Any thread, idempotent.
void grpc_loops_drain(grpc_loops *all);

// Stops the threads, closes all connections and cancels their calls. NULL is allowed.
void grpc_loops_stop(grpc_loops *all);

// Runs streams that were woken since the threads stopped.
void grpc_loops_run_woken(grpc_loops *all);

// Frees the loops, once no thread can call grpc_loop_wake_stream any more. NULL is allowed.
void grpc_loops_free(grpc_loops *all);

#endif
