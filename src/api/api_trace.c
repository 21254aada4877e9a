// SPDX-License-Identifier: Apache-2.0
// TRITONSERVER_InferenceTrace*: traces of requests (request/request_trace.h).
#include "api/convert.h"
#include "request/request_trace.h"

TRITONSERVER_Error *TRITONSERVER_InferenceTraceTensorNew(
    TRITONSERVER_InferenceTrace **t, TRITONSERVER_InferenceTraceLevel level, uint64_t parent_id,
    TRITONSERVER_InferenceTraceActivityFn_t activity_fn,
    TRITONSERVER_InferenceTraceTensorActivityFn_t tensor_activity_fn,
    TRITONSERVER_InferenceTraceReleaseFn_t release_fn, void *trace_userp)
{
  if (release_fn == NULL)
    return error_to_abi(error_new(ERROR_INVALID_ARG, "a trace needs a release function"));
  const trace_functions functions = {activity_fn, tensor_activity_fn, release_fn, trace_userp};
  return error_to_abi(trace_new((uint32_t)level, parent_id, &functions, t));
}

TRITONSERVER_Error *
TRITONSERVER_InferenceTraceNew(TRITONSERVER_InferenceTrace **t,
                               TRITONSERVER_InferenceTraceLevel level, uint64_t parent_id,
                               TRITONSERVER_InferenceTraceActivityFn_t activity_fn,
                               TRITONSERVER_InferenceTraceReleaseFn_t release_fn, void *trace_userp)
{
  return TRITONSERVER_InferenceTraceTensorNew(t, level, parent_id, activity_fn, NULL, release_fn,
                                              trace_userp);
}

TRITONSERVER_Error *TRITONSERVER_InferenceTraceDelete(TRITONSERVER_InferenceTrace *t)
{
  trace_free(t);
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceTraceReportActivity(TRITONSERVER_InferenceTrace *t,
                                                              uint64_t timestamp,
                                                              const char *activity_name)
{
  return t == NULL ? NULL : error_to_abi(trace_report_custom(t, timestamp, activity_name));
}

API_GET(TRITONSERVER_InferenceTraceId, TRITONSERVER_InferenceTrace, uint64_t, self->id)
API_GET(TRITONSERVER_InferenceTraceParentId, TRITONSERVER_InferenceTrace, uint64_t, self->parent_id)
API_GET(TRITONSERVER_InferenceTraceModelName, TRITONSERVER_InferenceTrace, const char *,
        trace_text(self->model_name))
API_GET(TRITONSERVER_InferenceTraceModelVersion, TRITONSERVER_InferenceTrace, int64_t,
        self->model_version)
API_GET(TRITONSERVER_InferenceTraceRequestId, TRITONSERVER_InferenceTrace, const char *,
        trace_text(self->request_id))

TRITONSERVER_Error *
TRITONSERVER_InferenceTraceSpawnChildTrace(TRITONSERVER_InferenceTrace *t,
                                           TRITONSERVER_InferenceTrace **child_trace)
{
  *child_trace = NULL;
  return t == NULL ? NULL : error_to_abi(trace_spawn(t, child_trace));
}

TRITONSERVER_Error *TRITONSERVER_InferenceTraceSetContext(TRITONSERVER_InferenceTrace *t,
                                                          const char *trace_context)
{
  return error_to_abi(trace_set_context(t, trace_context));
}

API_GET(TRITONSERVER_InferenceTraceContext, TRITONSERVER_InferenceTrace, const char *,
        trace_text(self->context))
