// SPDX-License-Identifier: Apache-2.0
// The server calls these on load threads (models, instances) and instance threads (execute).
#include "backend_entry.h"

#include "backend_copy.h"
#include "backend_error.h"
#include "backend_extension.h"

#include <stdatomic.h>

const char NEREID_BackendFills = 1;

static atomic_uint instances; // including those being made

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
  void *state = NULL;
  if (backend_entry.prefers_gpu != NULL)
    BACKEND_RETURN_IF_ERROR(TRITONBACKEND_BackendState(backend, &state));
  if (backend_entry.prefers_gpu != NULL && backend_entry.prefers_gpu(state))
    BACKEND_RETURN_IF_ERROR(TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(
        backend_attributes, TRITONSERVER_INSTANCEGROUPKIND_GPU, 0, NULL, 0));
  if (backend_entry.prefers_cpu)
    BACKEND_RETURN_IF_ERROR(TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(
        backend_attributes, TRITONSERVER_INSTANCEGROUPKIND_CPU, 0, NULL, 0));
  return TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading(backend_attributes, true);
}

bool NEREID_BackendAvoidsGpus(TRITONBACKEND_Backend *backend)
{
  void *state = NULL;
  TRITONSERVER_Error *error = TRITONBACKEND_BackendState(backend, &state);
  if (error != NULL)
    TRITONSERVER_ErrorDelete(error);
  return error == NULL && backend_entry.prefers_gpu != NULL && !backend_entry.prefers_gpu(state);
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

// Triton finalizes models that failed to initialize, too: then `state` is NULL.
TRITONSERVER_Error *TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model *model)
{
  void *state = NULL;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelState(model, &state));
  backend_entry.model_free(state);
  return NULL;
}

static void end_instance(void *state)
{
  backend_entry.instance_free(state);
  if (atomic_fetch_sub(&instances, 1) == 1)
    backend_devices_leave();
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance *instance)
{
  TRITONBACKEND_Model *model;
  void *model_state = NULL, *state = NULL;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceModel(instance, &model));
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelState(model, &model_state));
  atomic_fetch_add(&instances, 1);
  TRITONSERVER_Error *error = backend_entry.instance_new(instance, model_state, &state);
  if (error != NULL)
    state = NULL;
  else
    error = TRITONBACKEND_ModelInstanceSetState(instance, state);
  if (error != NULL)
    end_instance(state);
  return error;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance *instance)
{
  void *state = NULL;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceState(instance, &state));
  end_instance(state);
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
