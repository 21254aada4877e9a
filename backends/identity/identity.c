// The identity backend's entry points: answers each request with its own inputs. Called by the
// server; models may load on several threads at once, an instance executes on its own thread.
#include "identity_execute.h"

#include "backend_error.h"
#include "backend_extension.h"
#include "backend_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

const char NEREID_BackendComputes = 1;

// The oldest backend API with all that is called here (response parameters, traces, parallel
// loading of instances).
#define API_MINOR_NEEDED 13

// The metric is an extra: a server without metrics serves identity models all the same.
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

static TRITONSERVER_Error *add_metric(TRITONBACKEND_Model *model, identity_model *state,
                                      uint64_t version)
{
  TRITONBACKEND_Backend *backend;
  void *family = NULL;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelBackend(model, &backend));
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_BackendState(backend, &family));
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

TRITONSERVER_Error *TRITONBACKEND_Initialize(TRITONBACKEND_Backend *backend)
{
  BACKEND_RETURN_IF_ERROR(backend_check_api("identity", API_MINOR_NEEDED));
  return TRITONBACKEND_BackendSetState(backend, new_metric_family());
}

TRITONSERVER_Error *TRITONBACKEND_Finalize(TRITONBACKEND_Backend *backend)
{
  void *family = NULL;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_BackendState(backend, &family));
  return family == NULL ? NULL : TRITONSERVER_MetricFamilyDelete(family);
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
  const char *name;
  uint64_t version;
  identity_model *state;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelName(model, &name));
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelVersion(model, &version));
  BACKEND_LOG_INFO("TRITONBACKEND_ModelInitialize: %s (version %llu)", name,
                   (unsigned long long)version);
  BACKEND_RETURN_IF_ERROR(identity_model_new(model, name, &state));
  TRITONSERVER_Error *error = add_metric(model, state, version);
  if (error == NULL)
    error = TRITONBACKEND_ModelSetState(model, state);
  if (error != NULL) {
    identity_model_free(state);
    return error;
  }
  delay_creation(state->creation_delay_sec);
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model *model)
{
  void *state = NULL;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelState(model, &state));
  identity_model_free(state);
  return NULL;
}

static void free_instance(identity_instance *self)
{
  if (self != NULL)
    free(self->host_policy);
  free(self);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance *instance)
{
  TRITONSERVER_InstanceGroupKind kind;
  TRITONBACKEND_Model *model;
  void *state = NULL;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceKind(instance, &kind));
  if (kind != TRITONSERVER_INSTANCEGROUPKIND_CPU)
    return backend_error(TRITONSERVER_ERROR_INVALID_ARG,
                         "'identity' backend only supports CPU instances");
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceModel(instance, &model));
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelState(model, &state));
  identity_instance *made = calloc(1, sizeof(*made));
  if (made == NULL)
    return backend_error_no_memory("a model instance");
  made->model = state;
  made->index = atomic_fetch_add(&made->model->instance_count, 1);
  TRITONSERVER_Error *error = backend_host_policy(instance, &made->host_policy);
  if (error == NULL)
    error = TRITONBACKEND_ModelInstanceSetState(instance, made);
  if (error != NULL)
    free_instance(made);
  return error;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance *instance)
{
  void *state = NULL;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceState(instance, &state));
  free_instance(state);
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *instance,
                                                       TRITONBACKEND_Request **requests,
                                                       uint32_t request_count)
{
  void *state = NULL;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceState(instance, &state));
  return identity_execute(state, instance, requests, request_count);
}
