// SPDX-License-Identifier: Apache-2.0
// The identity backend's entry points: answers each request with its own inputs. Models may load on
// several threads at once; an instance executes on its own thread.
#include "identity_device.h"

#include "backend_entry.h"
#include "backend_error.h"
#include "backend_extension.h"
#include "backend_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

const char NEREID_BackendComputes = 1;

// The metric is optional: servers without metrics serve identity models, too.
static TRITONSERVER_MetricFamily *new_metric_family(void)
{
  TRITONSERVER_MetricFamily *family = NULL;
  TRITONSERVER_Error *error = TRITONSERVER_MetricFamilyNew(
      &family, TRITONSERVER_METRIC_KIND_COUNTER, "input_byte_size_counter",
      "Cumulative input byte size of all requests received by the model");
  if (error == NULL)
    return family;
  BACKEND_LOG_VERBOSE("identity: no input_byte_size_counter: %s", TRITONSERVER_ErrorMessage(error));
  TRITONSERVER_ErrorDelete(error);
  return NULL;
}

static TRITONSERVER_Error *add_metric(TRITONSERVER_MetricFamily *family, identity_model *state,
                                      uint64_t version)
{
  if (family == NULL)
    return NULL;
  char text[24];
  snprintf(text, sizeof(text), "%llu", (unsigned long long)version);
  TRITONSERVER_Parameter *name =
      TRITONSERVER_ParameterNew("model", TRITONSERVER_PARAMETER_STRING, state->name);
  TRITONSERVER_Parameter *number =
      TRITONSERVER_ParameterNew("version", TRITONSERVER_PARAMETER_STRING, text);
  const TRITONSERVER_Parameter *labels[] = {name, number};
  TRITONSERVER_Error *error = name == NULL || number == NULL
                                  ? backend_error_no_memory("a metric's labels")
                                  : TRITONSERVER_MetricNew(&state->input_bytes, family, labels, 2);
  TRITONSERVER_ParameterDelete(name);
  TRITONSERVER_ParameterDelete(number);
  return error;
}

static void delay_creation(int64_t seconds)
{
  if (seconds <= 0)
    return;
  BACKEND_LOG_INFO("Creation delay is set to: %lld", (long long)seconds);
  struct timespec left = {.tv_sec = (time_t)seconds};
  while (nanosleep(&left, &left) != 0)
    ;
}

static TRITONSERVER_Error *backend_new(TRITONBACKEND_Backend *backend, void **state)
{
  (void)backend;
  *state = new_metric_family();
  return NULL;
}

static void backend_free(void *family)
{
  if (family != NULL)
    backend_error_log(TRITONSERVER_MetricFamilyDelete(family), "delete input_byte_size_counter");
}

static TRITONSERVER_Error *model_new(TRITONBACKEND_Model *model, void *family, void **state)
{
  const char *name;
  uint64_t version;
  identity_model *self;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelName(model, &name));
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelVersion(model, &version));
  BACKEND_LOG_INFO("TRITONBACKEND_ModelInitialize: %s (version %llu)", name,
                   (unsigned long long)version);
  BACKEND_RETURN_IF_ERROR(identity_model_new(model, name, &self));
  TRITONSERVER_Error *error = add_metric(family, self, version);
  if (error != NULL) {
    identity_model_free(self);
    return error;
  }
  delay_creation(self->creation_delay_sec);
  *state = self;
  return NULL;
}

static void model_free(void *state)
{
  identity_model_free(state);
}

static void instance_free(void *state)
{
  identity_instance *self = state;
  if (self == NULL)
    return;
  identity_device_free(self->device);
  free(self->host_policy);
  free(self);
}

static TRITONSERVER_Error *instance_new(TRITONBACKEND_ModelInstance *instance, void *model,
                                        void **state)
{
  identity_instance *made = calloc(1, sizeof(*made));
  if (made == NULL)
    return backend_error_no_memory("a model instance");
  made->model = model;
  made->index = atomic_fetch_add(&made->model->instance_count, 1);
  TRITONSERVER_Error *error = backend_host_policy(instance, &made->host_policy);
  if (error == NULL)
    error = identity_device_new(made->model, instance, &made->device);
  if (error == NULL)
    *state = made;
  else
    instance_free(made);
  return error;
}

static TRITONSERVER_Error *execute(void *state, TRITONBACKEND_ModelInstance *instance,
                                   TRITONBACKEND_Request **requests, uint32_t count)
{
  const identity_instance *self = state;
  if (self->device == NULL)
    return identity_execute(self, instance, requests, count);
  BACKEND_RETURN_IF_ERROR(identity_device_begin(self, instance, requests, count));
  while (!identity_device_end(self->device, -1))
    ;
  return NULL;
}

static TRITONSERVER_Error *find_instance(TRITONBACKEND_ModelInstance *instance,
                                         identity_instance **self)
{
  void *state = NULL;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceState(instance, &state));
  *self = state;
  return NULL;
}

TRITONSERVER_Error *NEREID_ModelInstanceExecuteBegin(TRITONBACKEND_ModelInstance *instance,
                                                     TRITONBACKEND_Request **requests,
                                                     uint32_t count, bool *pending)
{
  identity_instance *self;
  *pending = false;
  BACKEND_RETURN_IF_ERROR(find_instance(instance, &self));
  if (self->device == NULL)
    return identity_execute(self, instance, requests, count);
  BACKEND_RETURN_IF_ERROR(identity_device_begin(self, instance, requests, count));
  *pending = true;
  return NULL;
}

void NEREID_ModelInstanceExecuteEnd(TRITONBACKEND_ModelInstance *instance, int64_t timeout_us,
                                    bool *pending)
{
  identity_instance *self = NULL;
  backend_error_log(find_instance(instance, &self), "find an instance");
  *pending = !identity_device_end(self->device, timeout_us);
}

uint32_t NEREID_ModelInstanceMaxExecutions(TRITONBACKEND_ModelInstance *instance)
{
  (void)instance;
  return IDENTITY_MOST_EXECUTIONS;
}

bool NEREID_ModelInstanceFault(TRITONBACKEND_ModelInstance *instance, char *text, size_t size)
{
  identity_instance *self;
  TRITONSERVER_Error *error = find_instance(instance, &self);
  TRITONSERVER_ErrorDelete(error);
  return error == NULL && self != NULL && identity_device_fault(self->device, text, size);
}

// The oldest API with all functions called here (response parameters, traces, parallel loading of
// instances).
const backend_entry_points backend_entry = {.name = "identity",
                                            .api_minor = 13,
                                            .prefers_cpu = true,
                                            .backend_new = backend_new,
                                            .backend_free = backend_free,
                                            .model_new = model_new,
                                            .model_free = model_free,
                                            .instance_new = instance_new,
                                            .instance_free = instance_free,
                                            .execute = execute};
