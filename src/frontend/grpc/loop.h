// The loop threads ("grpc-loop"): each waits for the sockets of its connections, for calls that
// other threads woke, and for timers, and handles all of them. A loop whose clients come back at
// once polls for a moment before it sleeps (docs/performance.md).
#ifndef NEREID_FRONTEND_GRPC_LOOP_H
#define NEREID_FRONTEND_GRPC_LOOP_H

#include "base/error.h"
#include "frontend/grpc/timers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct grpc_server grpc_server;
typedef struct connection connection;
typedef struct call call;
typedef struct loop loop;
typedef struct loops loops;

#define LOOP_READ_BYTES ((size_t)64 << 10)

// Starts the threads; the first one accepts from `listen_fd_owned`.
error *loops_new(grpc_server *g, int listen_fd_owned, loops **result);

// Closes the listening socket, and has every connection told to go (GOAWAY): those without calls are
// closed. Any thread, idempotent.
void loops_drain(loops *all);

// Stops the threads and closes all connections, whose calls are cancelled. NULL is allowed.
void loops_stop(loops *all);

// Runs what was woken since the threads have stopped.
void loops_run_woken(loops *all);

// Frees what loop_wake touches, once nobody can call it any more. NULL is allowed.
void loops_free(loops *all);

// Has the loop run c->woken soon, once for any number of wakes before that. Any thread.
void loop_wake_call(loop *l, call *c);

// --- On the loop's thread

grpc_server *loop_server(const loop *l);
timers *loop_timers(loop *l);
uint64_t loop_now_ns(const loop *l); // when this pass began
char *loop_read_buffer(loop *l);     // LOOP_READ_BYTES

// The connection has something to send or to hand to HTTP/2: seen to at the end of the pass.
void loop_mark(loop *l, connection *c);

// The connection is closed: nobody calls it any more.
void loop_forget(loop *l, connection *c);

// Watches the socket for more than input, or no longer.
bool loop_watch(loop *l, connection *c, bool for_output);

// A request began; the core or a job has one, or no longer: for polling.
void loop_request_began(loop *l);
void loop_handed_over(loop *l);
void loop_took_back(loop *l);

#endif
