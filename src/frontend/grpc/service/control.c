// Health, metadata, configuration and statistics. Handlers run on loop threads.
#include "frontend/grpc/call/call.h"
#include "frontend/grpc/codec/model_version.h"
#include "frontend/grpc/proto/grpc_service.pb-c.h"
#include "frontend/grpc/service/control_message.h"
#include "frontend/grpc/service/handlers.h"

#include <stdatomic.h>

#define CONFIG_VERSION 1 // of the JSON form of a model's configuration

// ---- health ----

void grpc_handle_server_live(call *c)
{
  Inference__ServerLiveResponse reply = INFERENCE__SERVER_LIVE_RESPONSE__INIT;
  bool live = false;
  if (call_fail_if(c, TRITONSERVER_ServerIsLive(c->server->server, &live)))
    return;
  reply.live = live;
  call_reply_message(c, &reply.base);
}

static void reply_ready(call *c, bool ready)
{
  Inference__ServerReadyResponse reply = INFERENCE__SERVER_READY_RESPONSE__INIT;
  reply.ready = ready;
  call_reply_message(c, &reply.base);
}

static void ask_server(call *c)
{
  bool ready = false;
  if (!call_fail_if(c, TRITONSERVER_ServerIsReady(c->server->server, &ready)))
    reply_ready(c, ready);
}

// Backends are asked about their instances, and may take their time: the loop does not wait.
void grpc_handle_server_ready(call *c)
{
  if (atomic_load_explicit(&c->server->leaving, memory_order_relaxed))
    reply_ready(c, false);
  else
    call_run_job(c, JOB_PROBES, ask_server, NULL);
}

// Requests about a model are all alike. NULL when the call has failed.
static const char *read_model(call *c, int64_t *version)
{
  const Inference__ModelReadyRequest *request =
      control_request(c, &inference__model_ready_request__descriptor);
  return request == NULL || call_fail_if_error(c, model_version_read(request->version, version))
             ? NULL
             : request->name;
}

static void ask_model(call *c)
{
  int64_t version;
  bool ready = false;
  const char *model = read_model(c, &version);
  if (model == NULL ||
      call_fail_if(c, TRITONSERVER_ServerModelIsReady(c->server->server, model, version, &ready)))
    return;
  Inference__ModelReadyResponse reply = INFERENCE__MODEL_READY_RESPONSE__INIT;
  reply.ready = ready;
  call_reply_message(c, &reply.base);
}

void grpc_handle_model_ready(call *c)
{
  call_run_job(c, JOB_PROBES, ask_model, NULL);
}

// ---- metadata and configuration ----

void grpc_handle_server_metadata(call *c)
{
  TRITONSERVER_Message *response;
  if (!call_fail_if(c, TRITONSERVER_ServerMetadata(c->server->server, &response)))
    control_reply_json(c, response, &inference__server_metadata_response__descriptor, NULL);
}

void grpc_handle_model_metadata(call *c)
{
  int64_t version;
  TRITONSERVER_Message *response;
  const char *model = read_model(c, &version);
  if (model != NULL && !call_fail_if(c, TRITONSERVER_ServerModelMetadata(c->server->server, model,
                                                                         version, &response)))
    control_reply_json(c, response, &inference__model_metadata_response__descriptor, NULL);
}

void grpc_handle_model_config(call *c)
{
  int64_t version;
  TRITONSERVER_Message *response;
  const char *model = read_model(c, &version);
  if (model != NULL &&
      !call_fail_if(c, TRITONSERVER_ServerModelConfig(c->server->server, model, version,
                                                      CONFIG_VERSION, &response)))
    control_reply_json(c, response, &inference__model_config_response__descriptor, "config");
}

// ---- statistics ----

static void read_statistics(call *c)
{
  int64_t version;
  TRITONSERVER_Message *response;
  const char *model = read_model(c, &version);
  if (model != NULL && !call_fail_if(c, TRITONSERVER_ServerModelStatistics(c->server->server, model,
                                                                           version, &response)))
    control_reply_json(c, response, &inference__model_statistics_response__descriptor, NULL);
}

// Of all models they are long: the loop does not wait, nor do they wait behind loads.
void grpc_handle_model_statistics(call *c)
{
  call_run_job(c, JOB_PROBES, read_statistics, NULL);
}
