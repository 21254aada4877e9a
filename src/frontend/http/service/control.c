// SPDX-License-Identifier: Apache-2.0
// Health, metadata, configuration, statistics. Handlers run on loop threads.
#include "frontend/http/service/routes.h"

#include "frontend/common/admin/model_admin.h"
#include "frontend/http/exchange/exchange.h"
#include "frontend/http/exchange/exchange_server.h"

static void reply_ready(exchange *x, TRITONSERVER_Error *failure_owned, bool ready)
{
  if (!exchange_fail_if(x, failure_owned))
    exchange_reply_empty(x, ready ? MHD_HTTP_OK : MHD_HTTP_BAD_REQUEST);
}

void handle_server_live(exchange *x)
{
  bool live = false;
  TRITONSERVER_Error *failure = TRITONSERVER_ServerIsLive(x->http->server, &live);
  reply_ready(x, failure, live);
}

static void ask_server(exchange *x)
{
  bool ready = false;
  TRITONSERVER_Error *failure = TRITONSERVER_ServerIsReady(x->http->server, &ready);
  reply_ready(x, failure, ready);
}

// A job, because backends are asked about their instances and may take long.
void handle_server_ready(exchange *x)
{
  if (listener_is_leaving(x->http)) {
    bool stops = atomic_load_explicit(&x->http->leaving, memory_order_relaxed);
    exchange_fail(x, MHD_HTTP_SERVICE_UNAVAILABLE, "%s",
                  stops ? "the server is stopping" : "the server is drained (nereid undrain)");
    return;
  }
  exchange_run_job(x, JOB_PROBES, ask_server, NULL);
}

void handle_server_metadata(exchange *x)
{
  TRITONSERVER_Message *message;
  exchange_fail_if_error(x, admin_take_json(TRITONSERVER_ServerMetadata(x->http->server, &message),
                                            &message, &x->text));
  exchange_reply_json(x);
}

static void ask_model(exchange *x)
{
  bool ready = false;
  if (exchange_fail_if(x, TRITONSERVER_ServerModelIsReady(
                              x->http->server, x->parameters[PARAMETER_MODEL], x->version, &ready)))
    return;
  if (ready)
    exchange_reply_empty(x, MHD_HTTP_OK);
  else
    exchange_fail(x, MHD_HTTP_BAD_REQUEST, "Model version not ready");
}

void handle_model_ready(exchange *x)
{
  exchange_run_job(x, JOB_PROBES, ask_model, NULL);
}

typedef TRITONSERVER_Error *model_question(TRITONSERVER_Server *server, const char *model,
                                           int64_t version, TRITONSERVER_Message **message);

static void reply_about_model(exchange *x, model_question *ask)
{
  TRITONSERVER_Message *message;
  TRITONSERVER_Error *failure =
      ask(x->http->server, x->parameters[PARAMETER_MODEL], x->version, &message);
  exchange_fail_if_error(x, admin_take_json(failure, &message, &x->text));
  exchange_reply_json(x);
}

static void awaited(NEREID_ModelWait *wait, void *exchange_pointer)
{
  (void)wait;
  exchange_resume(exchange_pointer);
}

// Calls `ask` when the model is loaded; loads it first, if the server loads on demand.
static void ask_when_loaded(exchange *x, exchange_step ask)
{
  bool waits;
  if (!NEREID_ServerLoadsOnDemand(x->http->server)) {
    ask(x);
    return;
  }
  exchange_suspend(x, ask);
  exchange_fail_if(x,
                   NEREID_ServerModelAwait(x->http->server, x->parameters[PARAMETER_MODEL],
                                           x->version, UINT64_MAX, awaited, x, &x->wait, &waits));
  if (!waits)
    exchange_resume(x);
  else if (connection_set_exchange(x->connection, x)) // the client left
    NEREID_ModelWaitCancel(x->wait);
}

static bool is_loaded(exchange *x)
{
  return !exchange_is_over(x) &&
         (x->wait == NULL || !exchange_fail_if(x, NEREID_ModelWaitTakeError(x->wait)));
}

static void ask_metadata(exchange *x)
{
  if (is_loaded(x))
    reply_about_model(x, TRITONSERVER_ServerModelMetadata);
}

static void ask_config(exchange *x)
{
  if (is_loaded(x))
    reply_about_model(x, model_admin_config);
}

void handle_model_metadata(exchange *x)
{
  ask_when_loaded(x, ask_metadata);
}

void handle_model_config(exchange *x)
{
  ask_when_loaded(x, ask_config);
}

void handle_model_statistics(exchange *x)
{
  reply_about_model(x, TRITONSERVER_ServerModelStatistics);
}
