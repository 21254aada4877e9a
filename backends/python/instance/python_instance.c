// SPDX-License-Identifier: Apache-2.0
// The life of an instance, and of a model's first worker, which completes the configuration. The
// worker's events come on the listener's thread.
#include "instance/python_instance.h"

#include "backend_config.h"
#include "backend_error.h"
#include "backend_log.h"
#include "base/cleanup.h"
#include "codec/protocol.h"
#include "instance/open_request.h"

#include <assert.h>
#include <stdlib.h>

// ---- events of the worker

static TRITONSERVER_Error *begin_calls(void *user, worker_link *link)
{
  python_instance *self = user;
  assert(self->calls == NULL);
  return self->calls_kind->begin(self, link, &self->calls);
}

static void take_call(void *user, worker_link *link, const channel_message *call)
{
  python_instance *self = user;
  if (open_request_take_call(self, link, call))
    return;
  if (self->calls_kind->handle(self->calls, call))
    worker_record_call(self->worker, call->kind == CALL_INFER);
  else
    BACKEND_LOG_WARN("model '%s': a Python worker made an unknown call", self->model->name);
}

static bool has_calls(void *user)
{
  python_instance *self = user;
  return self->calls_kind->are_under_way(self->calls);
}

static void end_calls(void *user)
{
  python_instance *self = user;
  self->calls_kind->end(self->calls);
  self->calls = NULL;
}

// Answers the open requests. Requests of an open execution are left to it: the worker's last
// answers may be for them.
static void fail_all(void *user, TRITONSERVER_Error *error)
{
  python_instance *self = user;
  TRITONSERVER_Error *explained = python_instance_explain(
      self, TRITONSERVER_ErrorNew(TRITONSERVER_ErrorCode(error), TRITONSERVER_ErrorMessage(error)));
  uint32_t from = 0;
  open_request *request;
  while ((request = request_table_begin_next(&self->requests, &from)) != NULL) {
    if (request->is_answered)
      open_request_abandon(self, request, explained);
    else
      request_table_end(&self->requests, request);
  }
  TRITONSERVER_ErrorDelete(explained);
}

static bool waits(const void *user)
{
  const python_instance *self = user;
  return wait_graph_is_waiting(&self->node);
}

static const worker_events EVENTS = {.calls_begun = begin_calls,
                                     .call = take_call,
                                     .has_calls = has_calls,
                                     .calls_ended = end_calls,
                                     .gone = fail_all,
                                     .waits = waits};

// ---- life

static void free_instance(python_instance *self)
{
  assert(list_is_empty(&self->ahead.executions) && self->calls == NULL);
  wait_graph_leave(&self->node);
  worker_free(self->worker);
  request_table_fini(&self->requests);
  free(self->host_policy);
  free(self);
}

TRITONSERVER_Error *python_instance_start(const python_model *model, const char *name,
                                          const instance_calls *calls_kind, python_instance **made)
{
  python_instance *self = calloc(1, sizeof(*self));
  if (self == NULL)
    return backend_error_no_memory("a Python worker");
  self->model = model;
  self->calls_kind = calls_kind;
  self->node =
      (wait_node){.model = model->server_model, .name = model->name, .version = model->version};
  list_init(&self->ahead.executions);
  request_table_init(&self->requests);
  self->worker = worker_new(&model->workers, name, &EVENTS, self);
  TRITONSERVER_Error *error = self->worker == NULL ? backend_error_no_memory("a Python worker")
                                                   : worker_start(self->worker);
  if (error != NULL)
    free_instance(self);
  else
    *made = self;
  return error;
}

TRITONSERVER_Error *python_instance_initialize(python_instance *self,
                                               TRITONBACKEND_ModelInstance *server_instance,
                                               const char *name, const char *arguments)
{
  bool passive;
  BACKEND_RETURN_IF_ERROR(backend_host_policy(server_instance, &self->host_policy));
  self->server_instance = server_instance;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceIsPassive(server_instance, &passive));
  if (!passive) // a passive instance gets no requests, so no call waits for it
    wait_graph_join(&self->node);
  return worker_initialize(self->worker, name, arguments);
}

void python_instance_stop(python_instance *self)
{
  if (self == NULL)
    return;
  worker_stop(self->worker);
  free_instance(self);
}

python_instance *python_instance_of(TRITONBACKEND_ModelInstance *instance)
{
  void *state = NULL;
  backend_error_log(TRITONBACKEND_ModelInstanceState(instance, &state), "find an instance");
  return state;
}

// ---- the configuration

// Gives the server the configuration that the model's auto_complete_config returned.
static TRITONSERVER_Error *set_completed(python_model *self, const char *completed)
{
  json_auto_t *config = json_loadb(completed, strlen(completed), JSON_ALLOW_NUL, NULL);
  if (config == NULL)
    return backend_error_internal("Failed to parse auto-complete JSON.");
  TRITONSERVER_Error *error = backend_model_set_config(self->server_model, config);
  if (error == NULL || TRITONSERVER_ErrorCode(error) != TRITONSERVER_ERROR_INVALID_ARG)
    return error;
  // As in Triton, an invalid configuration that can be read fails the load later.
  BACKEND_LOG_WARN(
      "model '%s': what auto_complete_config gave is no configuration and is left out, "
      "the model is loaded without it: %s",
      self->name, TRITONSERVER_ErrorMessage(error));
  TRITONSERVER_ErrorDelete(error);
  return NULL;
}

TRITONSERVER_Error *python_model_complete(python_model *self, const instance_calls *calls_kind)
{
  bool wanted = false;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelAutoCompleteConfig(self->server_model, &wanted));
  if (!wanted)
    return NULL;
  AUTO_FREE char *completed = NULL;
  python_instance *first;
  BACKEND_RETURN_IF_ERROR(python_instance_start(self, self->name, calls_kind, &first));
  atomic_store(&self->spare, first);
  BACKEND_RETURN_IF_ERROR(worker_complete(first->worker, self->config_text, &completed));
  if (completed == NULL)
    return NULL;
  BACKEND_RETURN_IF_ERROR(set_completed(self, completed));
  return python_model_read_config(self);
}

python_instance *python_model_take_spare(python_model *self)
{
  return atomic_exchange(&self->spare, NULL);
}
