// SPDX-License-Identifier: Apache-2.0
// /v2/nereid/{status,drain,undrain}: an operator takes the server out of service and back, at the
// admin address (docs/operating.md). Requests are served all the same; only load balancers and
// clients that keep connections learn that they are to go elsewhere.
#include "base/clock.h"
#include "frontend/common/observe/frontend_log.h"
#include "frontend/http/exchange/exchange.h"
#include "frontend/http/exchange/exchange_server.h"
#include "frontend/http/service/routes.h"
#include "nereid/nereid.h"

#include <inttypes.h>

static bool is_operator(exchange *x)
{
  return x->http->options.access->is_admin ||
         exchange_fail(x, MHD_HTTP_FORBIDDEN,
                       "this is for operators: ask at the admin address (--admin-address)");
}

// Backends are asked whether they are well, and may take their time.
static void reply_status(exchange *x)
{
  const listener_orders *orders = x->http->options.orders;
  bool ready = false;
  bool drained = atomic_load(&orders->drained);
  if (exchange_fail_if(x, TRITONSERVER_ServerIsReady(x->http->server, &ready)))
    return;
  uint64_t age_ns = clock_monotonic_ns() - orders->started_ns;
  buffer_append_format(&x->text,
                       "{\"ready\":%s,\"drained\":%s,\"requests\":%" PRIu64
                       ",\"uptime_seconds\":%" PRIu64 "}",
                       ready && !drained ? "true" : "false", drained ? "true" : "false",
                       NEREID_ServerInflight(x->http->server), age_ns / UINT64_C(1000000000));
  exchange_reply_json(x);
}

void handle_operator_status(exchange *x)
{
  if (is_operator(x))
    exchange_run_job(x, JOB_PROBES, reply_status, NULL);
}

static void order(exchange *x, bool drained)
{
  if (!is_operator(x))
    return;
  if (atomic_exchange(&x->http->options.orders->drained, drained) != drained)
    frontend_log_info("%s", drained ? "drained by an operator: not ready, clients are asked to "
                                      "close their connections"
                                    : "undrained by an operator: ready as its models are");
  exchange_run_job(x, JOB_PROBES, reply_status, NULL);
}

void handle_drain(exchange *x)
{
  order(x, true);
}

void handle_undrain(exchange *x)
{
  order(x, false);
}
