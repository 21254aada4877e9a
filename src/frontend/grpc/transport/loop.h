// The loop threads ("grpc-loop"): each waits for the sockets of its connections, for calls that
// other threads woke, and for timers, and handles all of them. A loop whose clients come back at
// once polls for a moment before it sleeps (docs/performance.md).
#ifndef NEREID_FRONTEND_GRPC_TRANSPORT_LOOP_H
#define NEREID_FRONTEND_GRPC_TRANSPORT_LOOP_H

#include "base/error.h"
#include "frontend/grpc/transport/conn_timer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct grpc_server grpc_server;
typedef struct grpc_connection grpc_connection;
typedef struct grpc_stream grpc_stream;
typedef struct grpc_loop grpc_loop;
typedef struct grpc_loops grpc_loops;

#define LOOP_READ_BYTES ((size_t)64 << 10)

// Starts the threads; the first one accepts from `listen_fd_owned`.
error *grpc_loops_new(grpc_server *g, int listen_fd_owned, grpc_loops **result);

// Closes the listening socket, and has every connection told to go (GOAWAY): those without calls
// are closed. Any thread, idempotent.
void grpc_loops_drain(grpc_loops *all);

// Stops the threads and closes all connections, whose calls are cancelled. NULL is allowed.
void grpc_loops_stop(grpc_loops *all);

// Runs what was woken since the threads have stopped.
void grpc_loops_run_woken(grpc_loops *all);

// Frees what grpc_loop_wake_stream touches, once nobody can call it any more. NULL is allowed.
void grpc_loops_free(grpc_loops *all);

// Has the loop call handlers->woken soon. Not again before that, and the stream is referenced until
// then. Any thread.
void grpc_loop_wake_stream(grpc_loop *l, grpc_stream *s);

// --- On the loop's thread

grpc_server *grpc_loop_server(const grpc_loop *l);
conn_timers *grpc_loop_timers(grpc_loop *l);
uint64_t grpc_loop_now_ns(const grpc_loop *l); // when this pass began
char *grpc_loop_read_buffer(grpc_loop *l);     // LOOP_READ_BYTES
void grpc_loop_record_protocol(grpc_loop *l);  // a client speaks another one

// The connection has something to send or to hand to HTTP/2: seen to at the end of the pass.
void grpc_loop_mark(grpc_loop *l, grpc_connection *c);

// A large message came: what its memory leaves behind is given back a moment later.
void grpc_loop_record_large(grpc_loop *l);

// The connection is closed: nobody calls it any more.
void grpc_loop_forget(grpc_loop *l, grpc_connection *c);

// A connection that was closed is no more. Any thread.
void grpc_loop_freed(grpc_loop *l);

// Watches the socket for more than input, or no longer.
bool grpc_loop_watch(grpc_loop *l, grpc_connection *c, bool for_output);

// A request began; the core or a job has one, or no longer: for polling.
void grpc_loop_request_began(grpc_loop *l);
void grpc_loop_handed_over(grpc_loop *l);
void grpc_loop_took_back(grpc_loop *l);

#endif
