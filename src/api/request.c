// TRITONSERVER_InferenceRequest*: thin calls into request/ and core/infer. One thread works on a
// request at a time, but for Cancel and IsCancelled.
#include "request/request.h"
#include "api/convert.h"
#include "core/server_status.h"
#include "core/submit.h"
#include "nereid/nereid.h"

#include <string.h>

static request *of(TRITONSERVER_InferenceRequest *r)
{
  return (request *)r;
}

static TRITONSERVER_Error *unknown_input(const request *r, const char *name)
{
  return error_to_abi(
      request_error(r, ERROR_INVALID_ARG, "input '%s' does not exist in request", name));
}

TRITONSERVER_Error *
TRITONSERVER_InferenceRequestNew(TRITONSERVER_InferenceRequest **inference_request,
                                 TRITONSERVER_Server *s, const char *model_name,
                                 int64_t model_version)
{
  model *m;
  error *e = server_find_model((server *)s, model_name, model_version, &m);
  if (e != NULL)
    return error_to_abi(e);
  e = request_new((request_target *)m, (request **)inference_request);
  model_unref(m);
  return error_to_abi(e);
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestDelete(TRITONSERVER_InferenceRequest *r)
{
  request_free(of(r));
  return NULL;
}

const struct TRITONBACKEND_Model *NEREID_InferenceRequestModel(TRITONSERVER_InferenceRequest *r)
{
  return (const struct TRITONBACKEND_Model *)of(r)->target; // the model begins with it
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestId(TRITONSERVER_InferenceRequest *r,
                                                    const char **id)
{
  *id = of(r)->id.data;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetId(TRITONSERVER_InferenceRequest *r,
                                                       const char *id)
{
  return error_to_abi(request_set_id(of(r), id));
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestFlags(TRITONSERVER_InferenceRequest *r,
                                                       uint32_t *flags)
{
  *flags = of(r)->flags;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetFlags(TRITONSERVER_InferenceRequest *r,
                                                          uint32_t flags)
{
  of(r)->flags = flags & ~NEREID_REQUEST_FLAG_RUN_HERE;
  of(r)->may_run_inline = (flags & NEREID_REQUEST_FLAG_RUN_HERE) != 0;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestCorrelationId(TRITONSERVER_InferenceRequest *r,
                                                               uint64_t *id)
{
  if (of(r)->correlation_text != NULL)
    return error_to_abi(request_error(of(r), ERROR_INVALID_ARG,
                                      "given request's correlation id is not an unsigned int"));
  *id = of(r)->correlation_id;
  return NULL;
}

TRITONSERVER_Error *
TRITONSERVER_InferenceRequestCorrelationIdString(TRITONSERVER_InferenceRequest *r, const char **id)
{
  if (of(r)->correlation_text == NULL)
    return error_to_abi(
        request_error(of(r), ERROR_INVALID_ARG, "given request's correlation id is not a string"));
  *id = of(r)->correlation_text;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetCorrelationId(TRITONSERVER_InferenceRequest *r,
                                                                  uint64_t id)
{
  of(r)->correlation_id = id;
  of(r)->correlation_text = NULL;
  return NULL;
}

TRITONSERVER_Error *
TRITONSERVER_InferenceRequestSetCorrelationIdString(TRITONSERVER_InferenceRequest *r,
                                                    const char *id)
{
  if (strlen(id) > 128)
    return error_to_abi(
        error_new(ERROR_UNSUPPORTED, "string correlation ID cannot be longer than 128 characters"));
  return error_to_abi(request_set_correlation_text(of(r), id));
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestCancel(TRITONSERVER_InferenceRequest *r)
{
  return error_to_abi(submit_cancel(of(r)));
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestIsCancelled(TRITONSERVER_InferenceRequest *r,
                                                             bool *is_cancelled)
{
  *is_cancelled = request_is_cancelled(of(r));
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestPriority(TRITONSERVER_InferenceRequest *r,
                                                          uint32_t *priority)
{
  *priority = (uint32_t)of(r)->priority;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestPriorityUInt64(TRITONSERVER_InferenceRequest *r,
                                                                uint64_t *priority)
{
  *priority = of(r)->priority;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetPriority(TRITONSERVER_InferenceRequest *r,
                                                             uint32_t priority)
{
  of(r)->priority = priority;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetPriorityUInt64(TRITONSERVER_InferenceRequest *r,
                                                                   uint64_t priority)
{
  of(r)->priority = priority;
  return NULL;
}

TRITONSERVER_Error *
TRITONSERVER_InferenceRequestTimeoutMicroseconds(TRITONSERVER_InferenceRequest *r,
                                                 uint64_t *timeout_us)
{
  *timeout_us = of(r)->timeout_us;
  return NULL;
}

TRITONSERVER_Error *
TRITONSERVER_InferenceRequestSetTimeoutMicroseconds(TRITONSERVER_InferenceRequest *r,
                                                    uint64_t timeout_us)
{
  of(r)->timeout_us = timeout_us;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestAddInput(TRITONSERVER_InferenceRequest *r,
                                                          const char *name,
                                                          TRITONSERVER_DataType type,
                                                          const int64_t *shape, uint64_t dim_count)
{
  return error_to_abi(request_add_input(of(r), name, type, shape, dim_count, false));
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestAddRawInput(TRITONSERVER_InferenceRequest *r,
                                                             const char *name)
{
  if (of(r)->input_count > 0)
    return error_to_abi(request_error(of(r), ERROR_INVALID_ARG,
                                      "raw input '%s' can't be added to request with other inputs",
                                      name));
  return error_to_abi(request_add_input(of(r), name, TRITONSERVER_TYPE_INVALID, NULL, 0, true));
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestRemoveInput(TRITONSERVER_InferenceRequest *r,
                                                             const char *name)
{
  return error_to_abi(request_remove_input(of(r), name));
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestRemoveAllInputs(TRITONSERVER_InferenceRequest *r)
{
  request_remove_inputs(of(r));
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestAppendInputData(
    TRITONSERVER_InferenceRequest *r, const char *name, const void *base, size_t byte_size,
    TRITONSERVER_MemoryType memory_type, int64_t memory_type_id)
{
  const input_segment segment = {base, byte_size, memory_type, memory_type_id};
  return error_to_abi(request_append_input_data(of(r), name, segment));
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestAppendInputDataWithBufferAttributes(
    TRITONSERVER_InferenceRequest *r, const char *name, const void *base,
    TRITONSERVER_BufferAttributes *attributes)
{
  const input_segment segment = {base, attributes->byte_size, attributes->memory_type,
                                 attributes->memory_type_id};
  return error_to_abi(request_append_input_data(of(r), name, segment));
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestAppendInputDataWithHostPolicy(
    TRITONSERVER_InferenceRequest *r, const char *name, const void *base, size_t byte_size,
    TRITONSERVER_MemoryType memory_type, int64_t memory_type_id, const char *host_policy_name)
{
  const input_segment segment = {base, byte_size, memory_type, memory_type_id};
  return error_to_abi(request_append_policy_data(of(r), name, segment, host_policy_name));
}

TRITONSERVER_Error *
TRITONSERVER_InferenceRequestRemoveAllInputData(TRITONSERVER_InferenceRequest *r, const char *name)
{
  if (request_find_input(of(r), name) == NULL)
    return unknown_input(of(r), name);
  return error_to_abi(request_remove_input_data(of(r), name));
}

TRITONSERVER_Error *
TRITONSERVER_InferenceRequestAddRequestedOutput(TRITONSERVER_InferenceRequest *r, const char *name)
{
  return error_to_abi(request_add_output(of(r), name));
}

TRITONSERVER_Error *
TRITONSERVER_InferenceRequestRemoveRequestedOutput(TRITONSERVER_InferenceRequest *r,
                                                   const char *name)
{
  return error_to_abi(request_remove_output(of(r), name));
}

TRITONSERVER_Error *
TRITONSERVER_InferenceRequestRemoveAllRequestedOutputs(TRITONSERVER_InferenceRequest *r)
{
  request_remove_outputs(of(r));
  return NULL;
}

TRITONSERVER_Error *
TRITONSERVER_InferenceRequestSetReleaseCallback(TRITONSERVER_InferenceRequest *r,
                                                TRITONSERVER_InferenceRequestReleaseFn_t release,
                                                void *context)
{
  of(r)->release_callback = release;
  of(r)->release_context = context;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetResponseCallback(
    TRITONSERVER_InferenceRequest *r, TRITONSERVER_ResponseAllocator *allocator,
    void *allocator_context, TRITONSERVER_InferenceResponseCompleteFn_t complete,
    void *complete_context)
{
  of(r)->allocator = allocator;
  of(r)->allocator_context = allocator_context;
  of(r)->response_callback = complete;
  of(r)->response_context = complete_context;
  return NULL;
}

TRITONSERVER_Error *
TRITONSERVER_InferenceRequestSetStringParameter(TRITONSERVER_InferenceRequest *r, const char *key,
                                                const char *value)
{
  return error_to_abi(request_set_parameter(of(r), key, parameter_of_string(value)));
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetIntParameter(TRITONSERVER_InferenceRequest *r,
                                                                 const char *key, int64_t value)
{
  return error_to_abi(request_set_parameter(of(r), key, parameter_of_int(value)));
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetBoolParameter(TRITONSERVER_InferenceRequest *r,
                                                                  const char *key, bool value)
{
  return error_to_abi(request_set_parameter(of(r), key, parameter_of_bool(value)));
}

TRITONSERVER_Error *
TRITONSERVER_InferenceRequestSetDoubleParameter(TRITONSERVER_InferenceRequest *r, const char *key,
                                                double value)
{
  return error_to_abi(request_set_parameter(of(r), key, parameter_of_double(value)));
}

TRITONSERVER_Error *TRITONSERVER_ServerInferAsync(TRITONSERVER_Server *s,
                                                  TRITONSERVER_InferenceRequest *r,
                                                  TRITONSERVER_InferenceTrace *trace)
{
  (void)s;
  return error_to_abi(submit_request(of(r), (struct trace *)trace));
}
