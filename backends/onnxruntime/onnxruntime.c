// The entry points of the onnxruntime backend. The server calls them on load threads (models,
// instances) and instance threads (execute).
#include "onnx_execute.h"

#include "backend_entry.h"
#include "backend_error.h"
#include "backend_extension.h"
#include "backend_log.h"

#include <stdlib.h>

const char NEREID_BackendComputes = 1;

// Newer versions of ONNX Runtime report their use to Microsoft and keep a database for that in the
// home directory, unless this variable is set before the library is opened. An operator's own value
// stays. nereid sets it before it has threads, and nothing is written here: other threads may read
// the environment meanwhile. In other servers this does it.
static void switch_telemetry_off(void)
{
  setenv("ORT_DISABLE_TELEMETRY", "1", 0);
}

static TRITONSERVER_Error *backend_new(TRITONBACKEND_Backend *backend, void **state)
{
  onnx_backend *self = NULL;
  switch_telemetry_off();
  TRITONSERVER_Error *error = onnx_backend_new(backend, &self);
  *state = self;
  return error;
}

static void backend_free(void *state)
{
  onnx_backend_free(state);
}

static TRITONSERVER_Error *model_new(TRITONBACKEND_Model *model, void *backend, void **state)
{
  onnx_model *self;
  BACKEND_RETURN_IF_ERROR(onnx_model_new(model, backend, &self));
  BACKEND_LOG_INFO("TRITONBACKEND_ModelInitialize: %s (ONNX Runtime %s)", self->name,
                   self->runtime->version);
  *state = self;
  return NULL;
}

static void model_free(void *state)
{
  onnx_model_free(state);
}

static TRITONSERVER_Error *instance_new(TRITONBACKEND_ModelInstance *instance, void *model,
                                        void **state)
{
  TRITONSERVER_InstanceGroupKind kind;
  onnx_executor *self = NULL;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceKind(instance, &kind));
  if (kind != TRITONSERVER_INSTANCEGROUPKIND_CPU)
    return backend_error(TRITONSERVER_ERROR_UNSUPPORTED,
                         "'onnxruntime' backend only supports CPU instances yet");
  TRITONSERVER_Error *error = onnx_executor_new(model, instance, &self);
  *state = self;
  return error;
}

static void instance_free(void *state)
{
  onnx_executor_free(state);
}

static TRITONSERVER_Error *execute(void *state, TRITONBACKEND_ModelInstance *instance,
                                   TRITONBACKEND_Request **requests, uint32_t count)
{
  return onnx_execute(state, instance, requests, count);
}

const backend_entry_points backend_entry = {.name = "onnxruntime",
                                            .api_minor = 10, // Triton 22.07
                                            .backend_new = backend_new,
                                            .backend_free = backend_free,
                                            .model_new = model_new,
                                            .model_free = model_free,
                                            .instance_new = instance_new,
                                            .instance_free = instance_free,
                                            .execute = execute};
