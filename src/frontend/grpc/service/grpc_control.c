// SPDX-License-Identifier: Apache-2.0
// Health, metadata, configuration and statistics.
#include "frontend/common/admin/model_admin.h"
#include "frontend/common/infer/model_version.h"
#include "frontend/common/observe/abi_error.h"
#include "frontend/grpc/call/call.h"
#include "frontend/grpc/codec/proto_unpack.h"
#include "frontend/grpc/proto/grpc_service.pb-c.h"
#include "frontend/grpc/service/control_method.h"
#include "frontend/grpc/service/handlers.h"
#include "nereid/nereid.h"

// ---- health ----

error *grpc_server_live(call *c, const void *request, buffer *json)
{
  bool live = false;
  (void)request;
  (void)json;
  RETURN_IF_ERROR(error_from_abi(TRITONSERVER_ServerIsLive(c->server->server, &live)));
  control_reply_number(c, live);
  return NULL;
}

error *grpc_server_ready(call *c, const void *request, buffer *json)
{
  bool ready = false;
  (void)request;
  (void)json;
  RETURN_IF_ERROR(error_from_abi(TRITONSERVER_ServerIsReady(c->server->server, &ready)));
  control_reply_number(c, ready);
  return NULL;
}

// A stopping server is not ready, without asking.
void grpc_handle_server_ready(call *c)
{
  if (listener_is_leaving(c->server))
    control_reply_number(c, false);
  else
    control_method_probe(c);
}

// All requests about a model have the same fields.
typedef Inference__ModelReadyRequest model_request;

error *grpc_model_ready(call *c, const void *request_pointer, buffer *json)
{
  int64_t version;
  bool ready = false;
  const model_request *request = request_pointer;
  (void)json;
  RETURN_IF_ERROR(model_version_read(c->server->server, request->name, request->version, &version));
  RETURN_IF_ERROR(error_from_abi(
      TRITONSERVER_ServerModelIsReady(c->server->server, request->name, version, &ready)));
  control_reply_number(c, ready);
  return NULL;
}

// ---- answers that the core gives in JSON ----

error *grpc_server_metadata(call *c, const void *request, buffer *json)
{
  TRITONSERVER_Message *response;
  (void)request;
  return admin_take_json(TRITONSERVER_ServerMetadata(c->server->server, &response), &response,
                         json);
}

typedef TRITONSERVER_Error *model_question(TRITONSERVER_Server *server, const char *model,
                                           int64_t version, TRITONSERVER_Message **response);

static error *ask(const call *c, const model_request *request, model_question *question,
                  buffer *json)
{
  int64_t version;
  TRITONSERVER_Message *response;
  RETURN_IF_ERROR(model_version_read(c->server->server, request->name, request->version, &version));
  return admin_take_json(question(c->server->server, request->name, version, &response), &response,
                         json);
}

// ---- answers about a model that may have to be loaded first ----

static void awaited(NEREID_ModelWait *wait, void *call_pointer)
{
  (void)wait;
  call_awaited(call_pointer);
}

static void stop_waiting(call *c)
{
  NEREID_ModelWaitCancel(c->handler_data);
}

static void model_came(call *c)
{
  NEREID_ModelWait *wait = c->handler_data;
  c->handler_data = NULL;
  if (wait != NULL && !call_fail_if_error(c, error_from_abi(NEREID_ModelWaitTakeError(wait))) &&
      !call_is_ended(c))
    control_method_run(c);
  NEREID_ModelWaitDelete(wait);
}

static void await_model(call *c, const char *name, int64_t version)
{
  bool waits;
  NEREID_ModelWait *wait;
  call_await(c, model_came, stop_waiting);
  call_fail_if_error(
      c, error_from_abi(NEREID_ServerModelAwait(c->server->server, name, version, UINT64_MAX,
                                                awaited, c, &wait, &waits)));
  c->handler_data = wait;
  if (!waits)
    call_awaited(c);
}

void grpc_handle_about_model(call *c)
{
  int64_t version;
  ProtobufCMessage *message;
  if (!NEREID_ServerLoadsOnDemand(c->server->server)) {
    control_method_run(c);
    return;
  }
  if (call_fail_if_error(c, proto_unpack(call_request(c), c->method->request, &c->arena, &message)))
    return;
  const model_request *request = (const model_request *)message;
  if (!call_fail_if_error(
          c, model_version_read(c->server->server, request->name, request->version, &version)))
    await_model(c, request->name, version);
}

error *grpc_model_metadata(call *c, const void *request, buffer *json)
{
  return ask(c, request, TRITONSERVER_ServerModelMetadata, json);
}

error *grpc_model_config(call *c, const void *request, buffer *json)
{
  return ask(c, request, model_admin_config, json);
}

error *grpc_model_statistics(call *c, const void *request, buffer *json)
{
  return ask(c, request, TRITONSERVER_ServerModelStatistics, json);
}
