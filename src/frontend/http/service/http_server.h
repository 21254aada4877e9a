// An HTTP listener: KServe v2 on one port (docs/http.md), or the metrics on another. The daemon
// makes it from options and a server of the north seam, and stops it before it stops that server.
// Its threads are its own: the loops (loop.h) and one watcher (connections.h).
#ifndef NEREID_FRONTEND_HTTP_SERVICE_HTTP_SERVER_H
#define NEREID_FRONTEND_HTTP_SERVICE_HTTP_SERVER_H

#include "base/error.h"
#include "frontend/http/transport/options.h"
#include "triton/core/tritonserver.h"

#include <stddef.h>
#include <stdint.h>

typedef struct http_server http_server;
typedef struct exposure exposure; // frontend/common/policy/exposure.h

// Opens the port and serves at once; models may still be loading. `server` is borrowed and must
// live until http_server_free has returned. Errors: UNAVAILABLE "Socket '<address>:<port>' already
// in use ", INVALID_ARG for an address that is none, UNAVAILABLE when a thread cannot be started.
error *http_server_new(const http_server_options *options, TRITONSERVER_Server *server,
                       http_server **result);

// What remote clients can do at it; lives as long as the listener.
const exposure *http_server_exposure(const http_server *http);
// "<address>:<port>" or "unix:…"; lives as long as the listener.
const char *http_server_where(const http_server *http);

// Serves on, but says that it is not ready, and asks each client to close its connection: so that
// whoever spreads requests over servers turns to others before http_server_drain.
void http_server_announce_stop(http_server *http);

// Stops accepting, closes connections without a request at once, and waits until every request in
// flight is answered or the monotonic moment `deadline_ns` (base/clock.h) has come. Returns the
// number of connections with a request that is still not answered. May be called again.
size_t http_server_drain(http_server *http, uint64_t deadline_ns);

// Stops all threads and closes what is open; requests still in flight are cancelled and waited
// for, since the core holds their buffers. NULL is allowed.
void http_server_free(http_server *http);

#endif
