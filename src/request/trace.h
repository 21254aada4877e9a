// TRITONSERVER_InferenceTrace: who wants to know what happens to a request, and when. The core and
// backends report, the maker's functions receive. A request without one costs a NULL check at each
// point.
//
// Ownership: the client's until TRITONSERVER_ServerInferAsync; then the request's response factory
// has it, and gives it back through the release function when nobody can answer any more. Reports
// come from whichever thread has the request or answers it. Of one trace only one thread at a time
// sets the context or reports an activity of its own.
#ifndef NEREID_REQUEST_TRACE_H
#define NEREID_REQUEST_TRACE_H

#include "base/error.h"
#include "triton/core/tritonserver.h"

#include <stdint.h>

typedef struct TRITONSERVER_InferenceTrace trace;
typedef struct TRITONSERVER_InferenceRequest request;
typedef struct TRITONSERVER_InferenceResponse response;

typedef struct trace_functions {
  TRITONSERVER_InferenceTraceActivityFn_t activity;
  TRITONSERVER_InferenceTraceTensorActivityFn_t tensor; // NULL: tensors are not wanted
  TRITONSERVER_InferenceTraceReleaseFn_t release;
  void *context;
} trace_functions;

error *trace_new(uint32_t level, uint64_t parent_id, const trace_functions *functions,
                 trace **result);
// The child has the parent's functions; the parent is given back after its children.
error *trace_spawn(trace *parent, trace **child);
void trace_free(trace *t); // NULL is allowed

uint64_t trace_id(const trace *t);
uint64_t trace_parent_id(const trace *t);
const char *trace_model_name(const trace *t); // borrowed; "" before the trace was submitted
int64_t trace_model_version(const trace *t);
const char *trace_request_id(const trace *t);
const char *trace_context(const trace *t); // borrowed until the next one is set
error *trace_set_context(trace *t, const char *context);

// Names what the trace follows; its request is about to be submitted.
error *trace_follow(trace *t, const request *r);

void trace_report(trace *t, TRITONSERVER_InferenceTraceActivity activity, uint64_t moment_ns);
// A CUSTOM_ACTIVITY. Its name is a member of the context, as Triton's users look for it there:
// {"<moment>":"<name>"}.
error *trace_report_custom(trace *t, uint64_t moment_ns, const char *name);
void trace_report_inputs(trace *t, const request *r);
void trace_report_outputs(trace *t, const response *r);

// Gives the trace back to its maker, at once or with its last child.
void trace_release(trace *t_owned);

#endif
