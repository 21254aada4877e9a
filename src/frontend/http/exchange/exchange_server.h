// SPDX-License-Identifier: Apache-2.0
// The state of a running HTTP listener that exchanges and handlers share.
#ifndef NEREID_FRONTEND_HTTP_EXCHANGE_EXCHANGE_SERVER_H
#define NEREID_FRONTEND_HTTP_EXCHANGE_EXCHANGE_SERVER_H

#include "base/container_of.h"
#include "base/parallel.h"
#include "frontend/common/net/body.h"
#include "frontend/common/net/listener.h"
#include "frontend/common/policy/access_policy.h"
#include "frontend/http/exchange/exchange_routing.h"
#include "frontend/http/transport/connections.h"
#include "frontend/http/transport/http_loop.h"

#include <microhttpd.h>
#include <stdatomic.h>

typedef struct http_server {
  listener listener; // its `busy` counts requests being handled, suspended ones too
  const route_table *routes;
  connections *connections;
  loops *loops;
  parallel parallel;                     // runs parts of long computations as jobs
  struct MHD_Response *empty_reply;      // shared by all replies without a body
  struct MHD_Response *empty_json_reply; // the same with application/json
  _Atomic bool stopping;                 // no more requests are handled
  _Atomic size_t unanswered;             // requests whose reply is not sent yet
} http_server;

static inline http_server *http_server_of(listener *l)
{
  return container_of(l, http_server, listener);
}

static inline void http_server_request_began(listener *l)
{
  listener_ref(l);
  atomic_fetch_add(&http_server_of(l)->unanswered, 1);
}

static inline void http_server_request_ended(listener *l)
{
  drain_count_down(&l->drain, &http_server_of(l)->unanswered);
}

// Call before a complete request is handled; listener_done ends it. False when the server is
// stopping: drop the request.
static inline bool http_server_handling_began(listener *l)
{
  listener_busy(l);
  if (!atomic_load(&http_server_of(l)->stopping))
    return true;
  listener_done(l);
  return false;
}

#endif
