// The thread that watches a listener's connections ("http-watch"): it accepts, hands each
// connection to libmicrohttpd's loops, notices clients that leave while their request runs,
// enforces the timeouts, and takes leave of clients that were refused in the middle of a body.
//
// libmicrohttpd itself could accept and time out, but it wakes every loop for each new connection,
// cannot stop accepting without a race, does not see a client leave while the connection is
// suspended, and knows one timeout for everything.
#ifndef NEREID_FRONTEND_HTTP_TRANSPORT_WATCHER_H
#define NEREID_FRONTEND_HTTP_TRANSPORT_WATCHER_H

#include "base/error.h"
#include "frontend/http/transport/connections.h"
#include "frontend/http/transport/loop.h"

#include <stddef.h>

typedef struct watcher watcher;

// Starts the thread. Accepted sockets go to `adopters`; `listen_fd_owned` is closed by
// watcher_stop_accepting or watcher_free, or when this fails.
error *watcher_new(connections *all, int listen_fd_owned, loops *adopters, watcher **result);

// Closes the listening socket once what waits there is accepted. The watcher does it soon.
// Any thread, idempotent.
void watcher_stop_accepting(watcher *w);

// How many connections may still begin a request or are in one: 0 only after
// watcher_stop_accepting. Any thread.
size_t watcher_count_open(const watcher *w);

// Stops the thread. NULL is allowed.
void watcher_free(watcher *w);

#endif
