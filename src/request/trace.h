// SPDX-License-Identifier: Apache-2.0
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
#include "base/refcount.h"
#include "triton/core/tritonserver.h"

#include <stdbool.h>
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

struct TRITONSERVER_InferenceTrace {
  uint32_t level;
  uint64_t id;
  uint64_t parent_id;
  trace_functions functions;
  trace *parent;    // NULL: it was not spawned
  refcount users;   // who submits it or has it, and its children: they report to the same maker
  bool deleted;     // by its maker, without being released
  char *model_name; // owned; NULL before the trace was submitted
  int64_t model_version;
  char *request_id; // owned or NULL
  char *context;    // owned or NULL; borrowed by readers until the next one is set
};

static inline const char *trace_text(const char *text)
{
  return text == NULL ? "" : text;
}

error *trace_new(uint32_t level, uint64_t parent_id, const trace_functions *functions,
                 trace **result);
// The child has the parent's functions; the parent is given back after its children.
error *trace_spawn(trace *parent, trace **child);
void trace_free(trace *t); // NULL is allowed

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
