// What exchanges and handlers share of a running listener.
#ifndef NEREID_FRONTEND_HTTP_EXCHANGE_SERVER_H
#define NEREID_FRONTEND_HTTP_EXCHANGE_SERVER_H

#include "base/parallel.h"
#include "base/refcount.h"
#include "frontend/common/net/drain.h"
#include "frontend/common/net/listen.h"
#include "frontend/common/policy/exposure.h"
#include "frontend/http/exchange/body.h"
#include "frontend/http/exchange/routing.h"
#include "frontend/http/transport/connections.h"
#include "frontend/http/transport/loop.h"
#include "frontend/http/transport/options.h"
#include "frontend/http/transport/watcher.h"

#include <microhttpd.h>
#include <stdatomic.h>

struct http_server {
  http_server_options options; // without the address
  TRITONSERVER_Server *server; // borrowed
  const route_table *routes;
  listener listener; // the descriptor is the watcher's
  exposure exposure; // of it
  connections *connections;
  loops *loops;
  watcher *watcher;
  parallel parallel;                         // parts of long computations, as jobs
  TRITONSERVER_ResponseAllocator *allocator; // for outputs
  struct MHD_Response *empty_reply;          // shared by all replies without a body
  struct MHD_Response *empty_json_reply;     // the same with application/json
  byte_budget budget;

  refcount references;       // the owner's and one of each exchange: the core may keep an exchange
                             // longer than its reply
  _Atomic bool leaving;      // not ready; replies ask the client to close
  _Atomic bool stopping;     // nothing new is handled
  _Atomic size_t unanswered; // requests whose reply is not sent
  _Atomic size_t busy;       // requests being handled, suspended ones too
  drain drain;               // of those two; once begun nothing new is accepted
};

void http_server_ref(http_server *http);
void http_server_unref(http_server *http);

void http_server_request_began(http_server *http);
void http_server_request_ended(http_server *http);

// Around the handling of a complete request; false when the server is stopping: drop it.
bool http_server_handling_began(http_server *http);
void http_server_handling_ended(http_server *http);

#endif
