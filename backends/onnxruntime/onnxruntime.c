// The entry points of the onnxruntime backend. The server calls them on load threads (models,
// instances) and instance threads (execute).
#include "onnx_execute.h"

#include "backend_error.h"
#include "backend_extension.h"
#include "backend_log.h"

#include <stdlib.h>

const char NEREID_BackendComputes = 1;

#define API_MINOR_NEEDED 10 // Triton 22.07

// Newer versions of ONNX Runtime report their use to Microsoft and keep a database for that in the
// home directory, unless this variable is set before the library is opened. An operator's own value
// stays. nereid sets it before it has threads, and nothing is written here: other threads may read
// the environment meanwhile. In other servers this does it.
static void switch_telemetry_off(void)
{
  setenv("ORT_DISABLE_TELEMETRY", "1", 0);
}

TRITONSERVER_Error *TRITONBACKEND_Initialize(TRITONBACKEND_Backend *backend)
{
  onnx_backend *self;
  switch_telemetry_off();
  BACKEND_RETURN_IF_ERROR(backend_check_api("onnxruntime", API_MINOR_NEEDED));
  BACKEND_RETURN_IF_ERROR(onnx_backend_new(backend, &self));
  TRITONSERVER_Error *error = TRITONBACKEND_BackendSetState(backend, self);
  if (error != NULL)
    onnx_backend_free(self);
  return error;
}

TRITONSERVER_Error *TRITONBACKEND_Finalize(TRITONBACKEND_Backend *backend)
{
  void *state = NULL;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_BackendState(backend, &state));
  onnx_backend_free(state);
  return NULL;
}

TRITONSERVER_Error *
TRITONBACKEND_GetBackendAttribute(TRITONBACKEND_Backend *backend,
                                  TRITONBACKEND_BackendAttribute *backend_attributes)
{
  (void)backend;
  return TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading(backend_attributes, true);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model *model)
{
  TRITONBACKEND_Backend *backend;
  void *state = NULL;
  onnx_model *self;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelBackend(model, &backend));
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_BackendState(backend, &state));
  BACKEND_RETURN_IF_ERROR(onnx_model_new(model, state, &self));
  BACKEND_LOG_INFO("TRITONBACKEND_ModelInitialize: %s (ONNX Runtime %s)", self->name,
                   self->runtime->version);
  TRITONSERVER_Error *error = TRITONBACKEND_ModelSetState(model, self);
  if (error != NULL)
    onnx_model_free(self);
  return error;
}

TRITONSERVER_Error *TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model *model)
{
  void *state = NULL;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelState(model, &state));
  onnx_model_free(state);
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance *instance)
{
  TRITONBACKEND_Model *model;
  TRITONSERVER_InstanceGroupKind kind;
  void *state = NULL;
  onnx_executor *self;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceKind(instance, &kind));
  if (kind != TRITONSERVER_INSTANCEGROUPKIND_CPU)
    return backend_error(TRITONSERVER_ERROR_UNSUPPORTED,
                         "'onnxruntime' backend only supports CPU instances yet");
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceModel(instance, &model));
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelState(model, &state));
  BACKEND_RETURN_IF_ERROR(onnx_executor_new(state, instance, &self));
  TRITONSERVER_Error *error = TRITONBACKEND_ModelInstanceSetState(instance, self);
  if (error != NULL)
    onnx_executor_free(self);
  return error;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance *instance)
{
  void *state = NULL;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceState(instance, &state));
  onnx_executor_free(state);
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *instance,
                                                       TRITONBACKEND_Request **requests,
                                                       uint32_t request_count)
{
  void *state = NULL;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceState(instance, &state));
  return onnx_execute(state, instance, requests, request_count);
}
