// The entry points of the python backend. The server calls them on load threads (models,
// instances) and instance threads (execute, ready).
#include "calls/calls.h"
#include "instance/execution_ahead.h"
#include "instance/execution_run.h"
#include "instance/instance.h"
#include "instance/model_load.h"

#include "backend_error.h"
#include "backend_extension.h"
#include "backend_log.h"

#include <stdlib.h>

#define API_MINOR_NEEDED 13 // Triton 23.07

TRITONSERVER_Error *TRITONBACKEND_Initialize(TRITONBACKEND_Backend *backend)
{
  python_backend *self;
  BACKEND_RETURN_IF_ERROR(backend_check_api("python", API_MINOR_NEEDED));
  BACKEND_RETURN_IF_ERROR(python_backend_new(backend, &self));
  TRITONSERVER_Error *error = TRITONBACKEND_BackendSetState(backend, self);
  if (error != NULL)
    python_backend_free(self);
  return error;
}

TRITONSERVER_Error *TRITONBACKEND_Finalize(TRITONBACKEND_Backend *backend)
{
  void *state = NULL;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_BackendState(backend, &state));
  python_backend_free(state);
  return NULL;
}

TRITONSERVER_Error *
TRITONBACKEND_GetBackendAttribute(TRITONBACKEND_Backend *backend,
                                  TRITONBACKEND_BackendAttribute *backend_attributes)
{
  (void)backend;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(
      backend_attributes, TRITONSERVER_INSTANCEGROUPKIND_CPU, 0, NULL, 0));
  return TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading(backend_attributes, true);
}

// NULL is allowed: Triton finalizes models that could not be initialized.
static void free_model(python_model *self)
{
  if (self == NULL)
    return;
  python_instance_stop(python_model_take_spare(self));
  python_model_free(self);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model *model)
{
  TRITONBACKEND_Backend *backend;
  void *state = NULL;
  python_model *self;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelBackend(model, &backend));
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_BackendState(backend, &state));
  BACKEND_RETURN_IF_ERROR(python_model_new(model, state, &self));
  TRITONSERVER_Error *error = python_model_complete(self, &CALLS);
  if (error == NULL) {
    BACKEND_LOG_INFO("TRITONBACKEND_ModelInitialize: %s (version %llu)", self->name,
                     (unsigned long long)self->version);
    error = TRITONBACKEND_ModelSetState(model, self);
  }
  if (error != NULL)
    free_model(self);
  return error;
}

TRITONSERVER_Error *TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model *model)
{
  void *state = NULL;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelState(model, &state));
  free_model(state);
  return NULL;
}

// ---- instances

// What the model's initialize gets: every value is a text.
static char *initialize_arguments(const python_model *model, TRITONSERVER_InstanceGroupKind kind,
                                  int32_t device)
{
  json_t *arguments = json_pack(
      "{ss ss so ss so ss}", "model_config", model->config_text, "model_instance_kind",
      TRITONSERVER_InstanceGroupKindString(kind), "model_instance_device_id",
      json_sprintf("%d", (int)device), "model_repository", model->dir, "model_version",
      json_sprintf("%llu", (unsigned long long)model->version), "model_name", model->name);
  char *text = arguments == NULL ? NULL : json_dumps(arguments, JSON_COMPACT);
  json_decref(arguments);
  return text;
}

static TRITONSERVER_Error *
start_instance(python_model *model, TRITONBACKEND_ModelInstance *instance, python_instance **result)
{
  const char *name;
  TRITONSERVER_InstanceGroupKind kind;
  int32_t device;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceName(instance, &name));
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceKind(instance, &kind));
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceDeviceId(instance, &device));
  BACKEND_LOG_INFO("TRITONBACKEND_ModelInstanceInitialize: %s (%s device %d)", name,
                   TRITONSERVER_InstanceGroupKindString(kind), (int)device);
  if (kind == TRITONSERVER_INSTANCEGROUPKIND_GPU)
    return backend_error(TRITONSERVER_ERROR_UNSUPPORTED,
                         "'%s' backend does not support GPU instances yet: instance '%s'",
                         model->backend->name, name);
  python_instance *self = python_model_take_spare(model);
  if (self != NULL && !worker_is_here(self->worker)) {
    python_instance_stop(self); // the instance's host policy is another than the model's load had
    self = NULL;
  }
  if (self == NULL)
    BACKEND_RETURN_IF_ERROR(python_instance_start(model, name, &CALLS, &self));
  char *arguments = initialize_arguments(model, kind, device);
  TRITONSERVER_Error *error = arguments == NULL
                                  ? backend_error_no_memory("a model instance")
                                  : python_instance_initialize(self, instance, name, arguments);
  free(arguments);
  if (error == NULL)
    *result = self;
  else
    python_instance_stop(self);
  return error;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance *instance)
{
  TRITONBACKEND_Model *model;
  void *state = NULL;
  python_instance *self;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceModel(instance, &model));
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelState(model, &state));
  BACKEND_RETURN_IF_ERROR(start_instance(state, instance, &self));
  TRITONSERVER_Error *error = TRITONBACKEND_ModelInstanceSetState(instance, self);
  if (error != NULL)
    python_instance_stop(self);
  return error;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance *instance)
{
  void *state = NULL;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceState(instance, &state));
  python_instance_stop(state);
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *instance,
                                                       TRITONBACKEND_Request **requests,
                                                       uint32_t request_count)
{
  void *state = NULL;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceState(instance, &state));
  return python_instance_execute(state, requests, request_count);
}

static worker *worker_of(void *state)
{
  return ((python_instance *)state)->worker;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReady(TRITONBACKEND_ModelInstance *instance)
{
  void *state = NULL;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceState(instance, &state));
  return worker_check_ready(worker_of(state));
}

void NEREID_ModelInstanceAskReady(TRITONBACKEND_ModelInstance *instance)
{
  void *state = NULL;
  TRITONSERVER_Error *error = TRITONBACKEND_ModelInstanceState(instance, &state);
  if (error == NULL)
    worker_ask_ready(worker_of(state));
  backend_error_log(error, "ask for readiness");
}

TRITONSERVER_Error *NEREID_ModelInstanceExecuteBegin(TRITONBACKEND_ModelInstance *instance,
                                                     TRITONBACKEND_Request **requests,
                                                     uint32_t request_count, bool *pending)
{
  void *state = NULL;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceState(instance, &state));
  return python_instance_execute_begin(state, requests, request_count, pending);
}

void NEREID_ModelInstanceExecuteEnd(TRITONBACKEND_ModelInstance *instance, int64_t timeout_us,
                                    bool *pending)
{
  void *state = NULL;
  backend_error_log(TRITONBACKEND_ModelInstanceState(instance, &state), "end an execution");
  python_instance_execute_end(state, timeout_us, pending);
}

uint32_t NEREID_ModelInstanceMaxExecutions(TRITONBACKEND_ModelInstance *instance)
{
  void *state = NULL;
  TRITONSERVER_Error *error = TRITONBACKEND_ModelInstanceState(instance, &state);
  TRITONSERVER_ErrorDelete(error);
  return error == NULL ? python_instance_max_executions(state) : 1;
}

bool NEREID_ModelInstanceFault(TRITONBACKEND_ModelInstance *instance, char *text, size_t size)
{
  void *state = NULL;
  TRITONSERVER_Error *error = TRITONBACKEND_ModelInstanceState(instance, &state);
  TRITONSERVER_ErrorDelete(error);
  return error == NULL && worker_has_fault(worker_of(state), text, size);
}
