// Owns what belongs to an instance, and does what its worker asks of it. See instance.h; the
// worker's events come on the listener's thread.
#include "instance/instance.h"

#include "backend_batch.h"
#include "backend_error.h"
#include "backend_log.h"
#include "codec/protocol.h"
#include "instance/open_request.h"
#include "instance/response_call.h"

#include <assert.h>
#include <stdlib.h>

// ---- what happens to the worker

static TRITONSERVER_Error *begin_calls(void *user, worker_link *link)
{
  python_instance *self = user;
  assert(self->calls == NULL);
  return self->calls_kind->begin(self, link, &self->calls);
}

static void take_call(void *user, worker_link *link, const channel_message *call)
{
  python_instance *self = user;
  if (response_call_take(self, link, call))
    return;
  if (self->calls_kind->handle(self->calls, call))
    worker_note_call(self->worker, call->kind == CALL_INFER);
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

static void fail_all(void *user, TRITONSERVER_Error *error)
{
  python_instance *self = user;
  TRITONSERVER_Error *explained = python_instance_explain(
      self, TRITONSERVER_ErrorNew(TRITONSERVER_ErrorCode(error), TRITONSERVER_ErrorMessage(error)));
  uint32_t from = 0;
  open_request *request;
  while ((request = request_table_begin_next(&self->requests, &from)) != NULL) {
    open_request ended = request_table_close(&self->requests, request);
    open_request_fail(self, &ended, explained);
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
  python_instance *self = calloc(1, sizeof *self);
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

// A passive instance gets no requests: nobody waits for it.
static TRITONSERVER_Error *join_graph(python_instance *self)
{
  bool passive;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceIsPassive(self->server_instance, &passive));
  if (!passive)
    wait_graph_join(&self->node);
  return NULL;
}

TRITONSERVER_Error *python_instance_initialize(python_instance *self,
                                               TRITONBACKEND_ModelInstance *server_instance,
                                               const char *name, const char *arguments)
{
  BACKEND_RETURN_IF_ERROR(backend_host_policy(server_instance, &self->host_policy));
  self->server_instance = server_instance;
  BACKEND_RETURN_IF_ERROR(join_graph(self));
  return worker_initialize(self->worker, name, arguments);
}

void python_instance_stop(python_instance *self)
{
  if (self == NULL)
    return;
  worker_stop(self->worker);
  free_instance(self);
}
