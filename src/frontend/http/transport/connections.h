// SPDX-License-Identifier: Apache-2.0
// The open connections of a listener: their states and their requests. Functions are called on the
// connection's loop thread unless their comments say otherwise.
#ifndef NEREID_FRONTEND_HTTP_TRANSPORT_CONNECTIONS_H
#define NEREID_FRONTEND_HTTP_TRANSPORT_CONNECTIONS_H

#include "base/error.h"
#include "frontend/common/net/listener.h"
#include "frontend/http/transport/exchange_calls.h"
#include "frontend/http/transport/library_probe.h"
#include "frontend/http/transport/request_scan.h"
#include "frontend/http/transport/tls_wire.h"

#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct connections connections;
typedef struct loop loop;
typedef struct loops loops;

// Connections beyond the limit that are accepted for health and admin requests.
#define CONNECTIONS_RESERVED 32

// The event that a connection waits for; decides which timeout applies.
typedef enum connection_state {
  CONNECTION_IDLE,    // the next request's first line (idle_timeout)
  CONNECTION_HEADERS, // the rest of the headers (header_timeout)
  CONNECTION_BODY,    // the rest of the body (body_timeout)
  CONNECTION_RUNNING, // the server: no timeout
  CONNECTION_REPLY,   // the client, to take the reply (write_timeout)
  CONNECTION_CLOSED,  // nothing: connections_close_idle has shut it down
} connection_state;

// --- The registry

// `calls` is borrowed.
error *connections_new(listener *l, const exchange_calls *calls, library_traits traits,
                       connections **result);

// All connections must be closed. NULL is allowed.
void connections_free(connections *all);

// Starts the watcher (watcher.c), which gives accepted sockets to `adopters`. With options.held it
// accepts nobody before connections_accept.
error *connections_watch(connections *all, loops *adopters);
void connections_accept(connections *all); // any thread

// Makes the watcher accept what waits in the backlog and then close the listening socket. Any
// thread, idempotent.
void connections_stop_accepting(connections *all);

// Makes the watcher close the listening socket, whose backlog another process accepts. From then on
// connections_close_idle closes only connections that were not used for `quiet_ms`. Any thread,
// idempotent; connections_stop_accepting ends it.
void connections_retire(connections *all, unsigned quiet_ms);

// Stops the watcher, if it runs.
void connections_unwatch(connections *all);

// How many connections may still begin a request or have one; at least 1 until the listening socket
// is closed. Any thread, while the watcher runs.
size_t connections_count_open(connections *all);

// Cancels all connections' requests in the core. Any thread.
void connections_cancel_all(connections *all);

// Notes that a connection has freed much memory in small blocks; the watcher gives it back to the
// system soon. Any thread.
void connections_record_freed(connections *all);

// Logs what the unanswered requests wait for, up to a number of them. Any thread.
void connections_log_requests(connections *all);

// Closes those connections of a loop that have no request, not even an unread one, and that were
// not used for a while if connections_retire says so. Between two
// passes of libmicrohttpd, which within a pass may have read bytes that it has not reported yet.
void connections_close_idle(connections *all, const loop *owner);

// The open connection of that socket, or NULL. On the loop's thread.
connection *connections_find(connections *all, int socket_fd);

// --- A connection

// Registers a connection that libmicrohttpd has taken on for the loop `owner`. `tls` is
// libmicrohttpd's session, or NULL. NULL when memory is short.
connection *connection_open(connections *all, const loop *owner, int socket_fd,
                            gnutls_session_t tls, tls_loop *tls_owner);
void connection_close(connection *c);

int connection_socket(const connection *c);
const listener_options *connection_options(const connection *c);

// Scans received bytes before libmicrohttpd reads them. Returns a fault of the request that is due
// if no exchange will report it to the client, else NULL.
const scan_fault *connection_read(connection *c, char *data, size_t size);

// The request that is due, as scanned; NULL when no byte of it came. Valid until the next call.
const scanned_request *connection_scanned(const connection *c);

// The fault of that request; NULL if there is none so far.
const scan_fault *connection_fault(const connection *c);

// Enters a state; entering the same state again counts as progress. False when
// connections_close_idle has closed the connection: then the request must not begin.
bool connection_enter(connection *c, connection_state state);

// Counts `size` bytes of a body; enough bytes count as progress.
void connection_received(connection *c, size_t size);

// Sets the exchange to cancel when the client leaves, or NULL. Borrowed until replaced. True when
// the client has left already (closing only the sending side counts as leaving).
bool connection_set_exchange(connection *c, exchange *x);

// Sets the current request, borrowed, or NULL after it: then the next request is due.
void connection_set_request(connection *c, exchange *x);
exchange *connection_request(const connection *c);

// The next reply is short and has a body: over TLS, sends head and body as one record.
void connection_join_reply(connection *c);

// Was the connection opened beyond the limit, which is still reached?
bool connection_is_surplus(connection *c);

// Sends `text` (a complete HTTP reply) to a client whose body is still coming, then reads and drops
// the rest for a while so that the client sees the reply, and closes. `announced`: the body's
// length, 0 if unknown. The caller must then refuse the connection to libmicrohttpd at once.
void connection_refuse(connection *c, const char *text, size_t size, uint64_t announced);

#endif
