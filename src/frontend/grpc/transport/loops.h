// SPDX-License-Identifier: Apache-2.0
// The loop threads ("grpc-loop"): each waits for the sockets of its connections, for calls that
// other threads woke, and for timers, and handles all of them. A loop whose clients come back at
// once polls for a moment before it sleeps (docs/performance.md).
#ifndef NEREID_FRONTEND_GRPC_TRANSPORT_LOOPS_H
#define NEREID_FRONTEND_GRPC_TRANSPORT_LOOPS_H

#include "base/error.h"
#include "frontend/grpc/transport/loop.h"

// Starts the threads; the first one accepts from the listener's socket.
error *grpc_loops_new(listener *l, const stream_handlers *handlers, grpc_loops **result);

// Closes the listening socket, and has every connection told to go (GOAWAY): those without calls
// are closed. Any thread, idempotent.
void grpc_loops_drain(grpc_loops *all);

// Stops the threads and closes all connections, whose calls are cancelled. NULL is allowed.
void grpc_loops_stop(grpc_loops *all);

// Runs what was woken since the threads have stopped.
void grpc_loops_run_woken(grpc_loops *all);

// Frees what grpc_loop_wake_stream touches, once nobody can call it any more. NULL is allowed.
void grpc_loops_free(grpc_loops *all);

#endif
