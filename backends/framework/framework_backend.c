// SPDX-License-Identifier: Apache-2.0
// The entry points of a backend that runs models on a framework, compiled into each such backend's
// library. The server calls them on load threads (models, instances) and instance threads
// (execute).
#include "framework_parts.h"

#include "backend_entry.h"
#include "backend_error.h"
#include "backend_extension.h"
#include "backend_log.h"

const char NEREID_BackendComputes = 1;

static TRITONSERVER_Error *backend_new(TRITONBACKEND_Backend *backend, void **state)
{
  framework_backend *self = NULL;
  if (framework_definition.set_environment != NULL)
    framework_definition.set_environment();
  TRITONSERVER_Error *error = framework_backend_new(backend, &self);
  *state = self;
  return error;
}

static bool prefers_gpu(const void *state)
{
  return framework_backend_prefers_gpu(state);
}

static void backend_free(void *state)
{
  framework_backend_free(state);
}

static TRITONSERVER_Error *model_new(TRITONBACKEND_Model *model, void *backend, void **state)
{
  framework_model *self;
  BACKEND_RETURN_IF_ERROR(framework_model_new(model, backend, &self));
  BACKEND_LOG_INFO("TRITONBACKEND_ModelInitialize: %s (%s %s)", self->name,
                   framework_definition.framework.name, self->library->version);
  *state = self;
  return NULL;
}

static void model_free(void *state)
{
  framework_model_free(state);
}

static TRITONSERVER_Error *instance_new(TRITONBACKEND_ModelInstance *instance, void *model,
                                        void **state)
{
  framework_instance *self = NULL;
  TRITONSERVER_Error *error = framework_instance_new(model, instance, &self);
  *state = self;
  return error;
}

static void instance_free(void *state)
{
  framework_instance_free(state);
}

static TRITONSERVER_Error *execute(void *state, TRITONBACKEND_ModelInstance *instance,
                                   TRITONBACKEND_Request **requests, uint32_t count)
{
  (void)instance;
  return framework_execute(state, requests, count);
}

bool NEREID_ModelInstanceFault(TRITONBACKEND_ModelInstance *instance, char *text, size_t size)
{
  void *state = NULL;
  backend_error_log(TRITONBACKEND_ModelInstanceState(instance, &state), "look at an instance");
  const framework_instance *self = state;
  return self != NULL && backend_device_fault(self->device, text, size);
}

const backend_entry_points backend_entry = {.name = FRAMEWORK_BACKEND_NAME,
                                            .api_minor = 10, // Triton 22.07
                                            .prefers_cpu = true,
                                            .prefers_gpu = prefers_gpu,
                                            .backend_new = backend_new,
                                            .backend_free = backend_free,
                                            .model_new = model_new,
                                            .model_free = model_free,
                                            .instance_new = instance_new,
                                            .instance_free = instance_free,
                                            .execute = execute};
