// SPDX-License-Identifier: Apache-2.0
// The entry points of the python backend. The server calls them on load threads (models, instances)
// and instance threads (execute, ready).
#include "calls/calls.h"
#include "instance/python_instance.h"

#include "backend_entry.h"
#include "backend_error.h"
#include "backend_extension.h"
#include "backend_log.h"
#include "base/cleanup.h"
#include "process_memory.h"

const char NEREID_BackendReadsOnHost = 1; // workers read inputs in shared memory

static TRITONSERVER_Error *backend_new(TRITONBACKEND_Backend *backend, void **state)
{
  python_backend *self = NULL;
  TRITONSERVER_Error *error = python_backend_new(backend, &self);
  *state = self;
  return error;
}

static void backend_free(void *state)
{
  python_backend_free(state);
}

static bool prefers_gpu(const void *state)
{
  return ((const python_backend *)state)->prefers_gpu;
}

static void model_free(void *state)
{
  if (state == NULL)
    return;
  python_instance_stop(python_model_take_spare(state));
  python_model_free(state);
}

static TRITONSERVER_Error *model_new(TRITONBACKEND_Model *model, void *backend, void **state)
{
  python_model *self;
  BACKEND_RETURN_IF_ERROR(python_model_new(model, backend, &self));
  TRITONSERVER_Error *error = python_model_complete(self, &CALLS);
  if (error != NULL) {
    model_free(self);
    return error;
  }
  BACKEND_LOG_INFO("TRITONBACKEND_ModelInitialize: %s (version %llu)", self->name,
                   (unsigned long long)self->version);
  *state = self;
  return NULL;
}

// ---- instances

// The arguments of the model's initialize: all values are texts.
static char *initialize_arguments(const python_model *model, TRITONSERVER_InstanceGroupKind kind,
                                  int32_t device)
{
  json_auto_t *arguments = json_pack(
      "{ss ss so ss so ss}", "model_config", model->config_text, "model_instance_kind",
      TRITONSERVER_InstanceGroupKindString(kind), "model_instance_device_id",
      json_sprintf("%d", (int)device), "model_repository", model->dir, "model_version",
      json_sprintf("%llu", (unsigned long long)model->version), "model_name", model->name);
  return json_dumps(arguments, JSON_COMPACT); // NULL gives NULL
}

static TRITONSERVER_Error *instance_new(TRITONBACKEND_ModelInstance *instance, void *state,
                                        void **result)
{
  python_model *model = state;
  const char *name;
  TRITONSERVER_InstanceGroupKind kind;
  int32_t device;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceName(instance, &name));
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceKind(instance, &kind));
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceDeviceId(instance, &device));
  BACKEND_LOG_INFO("TRITONBACKEND_ModelInstanceInitialize: %s (%s device %d)", name,
                   TRITONSERVER_InstanceGroupKindString(kind), (int)device);
  python_instance *self = python_model_take_spare(model);
  if (self != NULL && !worker_is_here(self->worker)) {
    python_instance_stop(self); // this instance's host policy differs from that of the model's load
    self = NULL;
  }
  if (self == NULL)
    BACKEND_RETURN_IF_ERROR(python_instance_start(model, name, &CALLS, &self));
  AUTO_FREE char *arguments = initialize_arguments(model, kind, device);
  TRITONSERVER_Error *error = arguments == NULL
                                  ? backend_error_no_memory("a model instance")
                                  : python_instance_initialize(self, instance, name, arguments);
  if (error == NULL)
    *result = self;
  else
    python_instance_stop(self);
  return error;
}

static void instance_free(void *state)
{
  python_instance_stop(state);
}

const backend_entry_points backend_entry = {.name = "python",
                                            .api_minor = 13, // Triton 23.07
                                            .prefers_cpu = true,
                                            .prefers_gpu = prefers_gpu,
                                            .backend_new = backend_new,
                                            .backend_free = backend_free,
                                            .model_new = model_new,
                                            .model_free = model_free,
                                            .instance_new = instance_new,
                                            .instance_free = instance_free,
                                            .execute = python_instance_execute};

// ---- entry points beyond these (executions: instance/execution_entry.c)

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReady(TRITONBACKEND_ModelInstance *instance)
{
  return worker_check_ready(python_instance_of(instance)->worker);
}

void NEREID_ModelInstanceAskReady(TRITONBACKEND_ModelInstance *instance)
{
  worker_ask_ready(python_instance_of(instance)->worker);
}

void NEREID_ModelInstanceMeasureMemory(TRITONBACKEND_ModelInstance *instance)
{
  process_memory_report(instance, worker_memory(python_instance_of(instance)->worker));
}

bool NEREID_ModelInstanceFault(TRITONBACKEND_ModelInstance *instance, char *text, size_t size)
{
  return worker_has_fault(python_instance_of(instance)->worker, text, size);
}
