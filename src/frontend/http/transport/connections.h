// SPDX-License-Identifier: Apache-2.0
// The open connections of a listener: what each waits for, and which request it is in. Calls are
// made on the connection's loop thread unless they say otherwise.
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

// Connections beyond the limit that are still accepted: for health and admin requests.
#define CONNECTIONS_RESERVED 32

// What a connection waits for; decides which timeout holds.
typedef enum connection_state {
  CONNECTION_IDLE,    // for the next request's first line (idle_timeout)
  CONNECTION_HEADERS, // for the rest of the headers (header_timeout)
  CONNECTION_BODY,    // for the rest of the body (body_timeout)
  CONNECTION_RUNNING, // for the server: no timeout
  CONNECTION_REPLY,   // for the client to take the reply (write_timeout)
  CONNECTION_CLOSED,  // for nothing: connections_close_idle has shut it down
} connection_state;

// --- The registry

// `calls` is borrowed.
error *connections_new(listener *l, const exchange_calls *calls, library_traits traits,
                       connections **result);

// Every connection must be closed. NULL is allowed.
void connections_free(connections *all);

// Starts the watcher (watcher.c), which hands what it accepts to `adopters`.
error *connections_watch(connections *all, loops *adopters);

// Closes the listening socket once what waits there is accepted. The watcher does it soon. Any
// thread, idempotent.
void connections_stop_accepting(connections *all);

// Stops the watcher, if there is one.
void connections_unwatch(connections *all);

// How many may still begin a request or are in one: 0 only after connections_stop_accepting. Any
// thread, while there is a watcher.
size_t connections_count_open(connections *all);

// Cancels what every connection's request has in the core. Any thread.
void connections_cancel_all(connections *all);

// A connection has freed much memory in small blocks: the watcher gives it back to the system soon.
// Any thread.
void connections_record_freed(connections *all);

// Logs what each request that is not over waits for, some of them if they are many. Any thread.
void connections_log_requests(connections *all);

// Closes those connections of a loop that have no request, and none on its way. Between two passes
// of libmicrohttpd: nobody else knows what it has read and not yet told.
void connections_close_idle(connections *all, const loop *owner);

// The open connection of that socket, or NULL. On its loop's thread.
connection *connections_find(connections *all, int socket_fd);

// --- A connection

// Begins to watch a connection that libmicrohttpd has taken on for the loop `owner`, and whose TLS
// session is libmicrohttpd's (NULL: none); NULL when memory is short.
connection *connection_open(connections *all, const loop *owner, int socket_fd,
                            gnutls_session_t tls, tls_loop *tls_owner);
void connection_close(connection *c);

int connection_socket(const connection *c);
const listener_options *connection_options(const connection *c);

// Bytes of requests came, before libmicrohttpd reads them. What is wrong with the request that is
// due, when nobody else will tell the client; NULL: nothing, or its exchange will.
const scan_fault *connection_read(connection *c, char *data, size_t size);

// The request that is due, as the bytes say; NULL: nothing of it came. Until the next call.
const scanned_request *connection_scanned(const connection *c);

// What is wrong with it; NULL: nothing so far.
const scan_fault *connection_fault(const connection *c);

// Says what the connection waits for from now on; repeating a state counts as progress. False when
// connections_close_idle has closed it, so that nobody may see this request begin.
bool connection_enter(connection *c, connection_state state);

// `size` bytes of a body came; enough of them are progress.
void connection_received(connection *c, size_t size);

// The exchange to cancel when the client leaves; NULL for none. Borrowed until replaced. True when
// the client has left already (a client that closes only its sending side counts as gone).
bool connection_set_exchange(connection *c, exchange *x);

// The request that the connection is in, NULL between two; borrowed. With NULL the next one is due.
void connection_set_request(connection *c, exchange *x);
exchange *connection_request(const connection *c);

// The next reply is short, and has a body: head and body go out together over TLS, too.
void connection_join_reply(connection *c);

// The connection was opened beyond the limit, and there are still as many.
bool connection_is_surplus(connection *c);

// Replies to a request whose body is still coming with `text` (a complete HTTP reply), reads for a
// while what the client still sends, so that it gets to see the reply, and closes. `announced`: the
// body's length, 0 when it is not known. To be followed at once by refusing the connection to
// libmicrohttpd.
void connection_refuse(connection *c, const char *text, size_t size, uint64_t announced);

#endif
