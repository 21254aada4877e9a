// The server calls these on load threads (models, instances) and instance threads (execute).
#include "backend_entry.h"

#include "backend_error.h"

TRITONSERVER_Error *TRITONBACKEND_Initialize(TRITONBACKEND_Backend *backend)
{
  void *state = NULL;
  BACKEND_RETURN_IF_ERROR(backend_check_api(backend_entry.name, backend_entry.api_minor));
  BACKEND_RETURN_IF_ERROR(backend_entry.backend_new(backend, &state));
  TRITONSERVER_Error *error = TRITONBACKEND_BackendSetState(backend, state);
  if (error != NULL)
    backend_entry.backend_free(state);
  return error;
}

TRITONSERVER_Error *TRITONBACKEND_Finalize(TRITONBACKEND_Backend *backend)
{
  void *state = NULL;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_BackendState(backend, &state));
  backend_entry.backend_free(state);
  return NULL;
}

TRITONSERVER_Error *
TRITONBACKEND_GetBackendAttribute(TRITONBACKEND_Backend *backend,
                                  TRITONBACKEND_BackendAttribute *backend_attributes)
{
  (void)backend;
  if (backend_entry.prefers_cpu)
    BACKEND_RETURN_IF_ERROR(TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(
        backend_attributes, TRITONSERVER_INSTANCEGROUPKIND_CPU, 0, NULL, 0));
  return TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading(backend_attributes, true);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model *model)
{
  TRITONBACKEND_Backend *backend;
  void *backend_state = NULL, *state = NULL;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelBackend(model, &backend));
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_BackendState(backend, &backend_state));
  BACKEND_RETURN_IF_ERROR(backend_entry.model_new(model, backend_state, &state));
  TRITONSERVER_Error *error = TRITONBACKEND_ModelSetState(model, state);
  if (error != NULL)
    backend_entry.model_free(state);
  return error;
}

// Triton finalizes models that could not be initialized, too.
TRITONSERVER_Error *TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model *model)
{
  void *state = NULL;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelState(model, &state));
  backend_entry.model_free(state);
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance *instance)
{
  TRITONBACKEND_Model *model;
  void *model_state = NULL, *state = NULL;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceModel(instance, &model));
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelState(model, &model_state));
  BACKEND_RETURN_IF_ERROR(backend_entry.instance_new(instance, model_state, &state));
  TRITONSERVER_Error *error = TRITONBACKEND_ModelInstanceSetState(instance, state);
  if (error != NULL)
    backend_entry.instance_free(state);
  return error;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance *instance)
{
  void *state = NULL;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceState(instance, &state));
  backend_entry.instance_free(state);
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *instance,
                                                       TRITONBACKEND_Request **requests,
                                                       uint32_t request_count)
{
  void *state = NULL;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceState(instance, &state));
  return backend_entry.execute(state, instance, requests, request_count);
}
