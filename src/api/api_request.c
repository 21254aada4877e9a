// SPDX-License-Identifier: Apache-2.0
// TRITONSERVER_InferenceRequest*: thin calls into request/ and core/infer. One thread works on a
// request at a time, except for Cancel and IsCancelled.
#include "api/convert.h"
#include "core/demand.h"
#include "core/routing.h"
#include "core/server_state.h"
#include "core/server_status.h"
#include "core/submit.h"
#include "core/version_policy.h"
#include "nereid/nereid.h"
#include "request/request.h"

#include <assert.h>
#include <string.h>

static TRITONSERVER_Error *unknown_input(const request *r, const char *name)
{
  return error_to_abi(
      request_error(r, ERROR_INVALID_ARG, "input '%s' does not exist in request", name));
}

static inline error *new_request(const server *s, model *m_owned, int64_t version, request **r)
{
  if (s->demand != NULL)
    model_touch(m_owned);
  error *e = routing_new_request(m_owned, version, r);
  model_unref(m_owned);
  return e;
}

TRITONSERVER_Error *
TRITONSERVER_InferenceRequestNew(TRITONSERVER_InferenceRequest **inference_request,
                                 TRITONSERVER_Server *s, const char *model_name,
                                 int64_t model_version)
{
  model *m;
  error *e = demand_find_model(s, model_name, model_version, &m);
  if (e == NULL)
    e = new_request(s, m, model_version, inference_request);
  return error_to_abi(e);
}

TRITONSERVER_Error *NEREID_InferenceRequestTryNew(TRITONSERVER_InferenceRequest **inference_request,
                                                  TRITONSERVER_Server *s, const char *model_name,
                                                  int64_t model_version)
{
  model *m;
  error *e = server_find_model(s, model_name, model_version, &m);
  if (e == NULL)
    e = new_request(s, m, model_version, inference_request);
  return error_to_abi(e);
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestDelete(TRITONSERVER_InferenceRequest *r)
{
  request_free(r);
  return NULL;
}

const struct TRITONBACKEND_Model *NEREID_InferenceRequestModel(TRITONSERVER_InferenceRequest *r)
{
  if (r->route == REQUEST_ROUTE_DUE)
    routing_choose(r);
  assert(r->route != REQUEST_ROUTE_DUE);
  return model_of_target(r->target);
}

int64_t NEREID_InferenceRequestVersion(TRITONSERVER_InferenceRequest *r, uint32_t *txn_flags)
{
  if (r->route == REQUEST_ROUTE_DUE)
    routing_choose(r);
  assert(r->route != REQUEST_ROUTE_DUE);
  *txn_flags = config_is_decoupled(model_of_target(r->target)->config)
                   ? TRITONSERVER_TXN_DECOUPLED
                   : TRITONSERVER_TXN_ONE_TO_ONE;
  return r->route == REQUEST_ROUTE_CHOSEN ? version_number_of_choice(r->target->version)
                                          : r->asked_version;
}

API_GET(TRITONSERVER_InferenceRequestId, TRITONSERVER_InferenceRequest, const char *, self->id.data)

TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetId(TRITONSERVER_InferenceRequest *r,
                                                       const char *id)
{
  return error_to_abi(request_set_id(r, id));
}

API_GET(TRITONSERVER_InferenceRequestFlags, TRITONSERVER_InferenceRequest, uint32_t, self->flags)

TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetFlags(TRITONSERVER_InferenceRequest *r,
                                                          uint32_t flags)
{
  r->flags = flags & ~(NEREID_REQUEST_FLAG_RUN_HERE | NEREID_REQUEST_FLAG_ALONE);
  r->may_run_inline = (flags & NEREID_REQUEST_FLAG_RUN_HERE) != 0;
  r->is_alone = (flags & NEREID_REQUEST_FLAG_ALONE) != 0;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestCorrelationId(TRITONSERVER_InferenceRequest *r,
                                                               uint64_t *id)
{
  if (r->correlation_text != NULL)
    return error_to_abi(request_error(r, ERROR_INVALID_ARG,
                                      "given request's correlation id is not an unsigned int"));
  *id = r->correlation_id;
  return NULL;
}

TRITONSERVER_Error *
TRITONSERVER_InferenceRequestCorrelationIdString(TRITONSERVER_InferenceRequest *r, const char **id)
{
  if (r->correlation_text == NULL)
    return error_to_abi(
        request_error(r, ERROR_INVALID_ARG, "given request's correlation id is not a string"));
  *id = r->correlation_text;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetCorrelationId(TRITONSERVER_InferenceRequest *r,
                                                                  uint64_t id)
{
  r->correlation_id = id;
  r->correlation_text = NULL;
  return NULL;
}

TRITONSERVER_Error *
TRITONSERVER_InferenceRequestSetCorrelationIdString(TRITONSERVER_InferenceRequest *r,
                                                    const char *id)
{
  if (strlen(id) > 128)
    return error_to_abi(
        error_new(ERROR_UNSUPPORTED, "string correlation ID cannot be longer than 128 characters"));
  return error_to_abi(request_set_correlation_text(r, id));
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestCancel(TRITONSERVER_InferenceRequest *r)
{
  return error_to_abi(submit_cancel(r));
}

API_GET(TRITONSERVER_InferenceRequestIsCancelled, TRITONSERVER_InferenceRequest, bool,
        request_is_cancelled(self))
API_GET(TRITONSERVER_InferenceRequestPriority, TRITONSERVER_InferenceRequest, uint32_t,
        (uint32_t)self->priority)
API_GET(TRITONSERVER_InferenceRequestPriorityUInt64, TRITONSERVER_InferenceRequest, uint64_t,
        self->priority)
API_SET(TRITONSERVER_InferenceRequestSetPriority, TRITONSERVER_InferenceRequest, uint32_t, priority)
API_SET(TRITONSERVER_InferenceRequestSetPriorityUInt64, TRITONSERVER_InferenceRequest, uint64_t,
        priority)
API_GET(TRITONSERVER_InferenceRequestTimeoutMicroseconds, TRITONSERVER_InferenceRequest, uint64_t,
        self->timeout_us)
API_SET(TRITONSERVER_InferenceRequestSetTimeoutMicroseconds, TRITONSERVER_InferenceRequest,
        uint64_t, timeout_us)

TRITONSERVER_Error *TRITONSERVER_InferenceRequestAddInput(TRITONSERVER_InferenceRequest *r,
                                                          const char *name,
                                                          TRITONSERVER_DataType type,
                                                          const int64_t *shape, uint64_t dim_count)
{
  return error_to_abi(request_add_input(r, name, type, shape, dim_count, false));
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestAddRawInput(TRITONSERVER_InferenceRequest *r,
                                                             const char *name)
{
  if (r->input_count > 0)
    return error_to_abi(request_error(
        r, ERROR_INVALID_ARG, "raw input '%s' can't be added to request with other inputs", name));
  return error_to_abi(request_add_input(r, name, TRITONSERVER_TYPE_INVALID, NULL, 0, true));
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestRemoveInput(TRITONSERVER_InferenceRequest *r,
                                                             const char *name)
{
  return error_to_abi(request_remove_input(r, name));
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestRemoveAllInputs(TRITONSERVER_InferenceRequest *r)
{
  request_remove_inputs(r);
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestAppendInputData(
    TRITONSERVER_InferenceRequest *r, const char *name, const void *base, size_t byte_size,
    TRITONSERVER_MemoryType memory_type, int64_t memory_type_id)
{
  const input_segment segment = {base, byte_size, memory_type, memory_type_id, NULL};
  return error_to_abi(request_append_input_data(r, name, segment));
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestAppendInputDataWithBufferAttributes(
    TRITONSERVER_InferenceRequest *r, const char *name, const void *base,
    TRITONSERVER_BufferAttributes *attributes)
{
  const input_segment segment = {base, attributes->byte_size, attributes->memory_type,
                                 attributes->memory_type_id,
                                 attributes->has_cuda_ipc_handle ? attributes : NULL};
  return error_to_abi(request_append_input_data(r, name, segment));
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestAppendInputDataWithHostPolicy(
    TRITONSERVER_InferenceRequest *r, const char *name, const void *base, size_t byte_size,
    TRITONSERVER_MemoryType memory_type, int64_t memory_type_id, const char *host_policy_name)
{
  const input_segment segment = {base, byte_size, memory_type, memory_type_id, NULL};
  return error_to_abi(request_append_policy_data(r, name, segment, host_policy_name));
}

TRITONSERVER_Error *
TRITONSERVER_InferenceRequestRemoveAllInputData(TRITONSERVER_InferenceRequest *r, const char *name)
{
  if (request_find_input(r, name) == NULL)
    return unknown_input(r, name);
  return error_to_abi(request_remove_input_data(r, name));
}

TRITONSERVER_Error *
TRITONSERVER_InferenceRequestAddRequestedOutput(TRITONSERVER_InferenceRequest *r, const char *name)
{
  return error_to_abi(request_add_output(r, name));
}

TRITONSERVER_Error *
TRITONSERVER_InferenceRequestRemoveRequestedOutput(TRITONSERVER_InferenceRequest *r,
                                                   const char *name)
{
  return error_to_abi(request_remove_output(r, name));
}

TRITONSERVER_Error *
TRITONSERVER_InferenceRequestRemoveAllRequestedOutputs(TRITONSERVER_InferenceRequest *r)
{
  request_remove_outputs(r);
  return NULL;
}

TRITONSERVER_Error *
TRITONSERVER_InferenceRequestSetReleaseCallback(TRITONSERVER_InferenceRequest *r,
                                                TRITONSERVER_InferenceRequestReleaseFn_t release,
                                                void *context)
{
  r->release_callback = release;
  r->release_context = context;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetResponseCallback(
    TRITONSERVER_InferenceRequest *r, TRITONSERVER_ResponseAllocator *allocator,
    void *allocator_context, TRITONSERVER_InferenceResponseCompleteFn_t complete,
    void *complete_context)
{
  r->allocator = allocator;
  r->allocator_context = allocator_context;
  r->response_callback = complete;
  r->response_context = complete_context;
  return NULL;
}

API_SET_PARAMETER(TRITONSERVER_InferenceRequestSetStringParameter, TRITONSERVER_InferenceRequest,
                  const char *, request_set_parameter(self, name, parameter_of_string(value)))
API_SET_PARAMETER(TRITONSERVER_InferenceRequestSetIntParameter, TRITONSERVER_InferenceRequest,
                  int64_t, request_set_parameter(self, name, parameter_of_int(value)))
API_SET_PARAMETER(TRITONSERVER_InferenceRequestSetBoolParameter, TRITONSERVER_InferenceRequest,
                  bool, request_set_parameter(self, name, parameter_of_bool(value)))
API_SET_PARAMETER(TRITONSERVER_InferenceRequestSetDoubleParameter, TRITONSERVER_InferenceRequest,
                  double, request_set_parameter(self, name, parameter_of_double(value)))

TRITONSERVER_Error *TRITONSERVER_ServerInferAsync(TRITONSERVER_Server *s,
                                                  TRITONSERVER_InferenceRequest *r,
                                                  TRITONSERVER_InferenceTrace *trace)
{
  (void)s;
  return error_to_abi(r->route == REQUEST_ROUTE_PLAIN ? submit_request(r, trace)
                                                      : routing_submit(r, trace));
}
