// SPDX-License-Identifier: Apache-2.0
// TRITONSERVER_InferenceTrace: the events of one request. The core and backends report them to the
// functions of the trace's maker. A request without a trace costs a NULL check at each event.
//
// Ownership: the client's until TRITONSERVER_ServerInferAsync; then the request's response
// factory's, which calls the release function once no answer can follow. Reports come from the
// thread that has the request or answers it. Only one thread at a time may set a trace's context or
// report a custom activity.
#ifndef NEREID_REQUEST_REQUEST_TRACE_H
#define NEREID_REQUEST_REQUEST_TRACE_H

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
  refcount users;   // its holder and its children, which report to the same maker
  bool deleted;     // by its maker, before a release
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
// The child has the parent's functions; the parent is released after its children.
error *trace_spawn(trace *parent, trace **child);
void trace_free(trace *t); // NULL is allowed

error *trace_set_context(trace *t, const char *context);

// Names the trace's model and request, which is about to be submitted.
error *trace_follow(trace *t, const request *r);

void trace_report(trace *t, TRITONSERVER_InferenceTraceActivity activity, uint64_t moment_ns);
// Reports a CUSTOM_ACTIVITY. Its name becomes a member of the context, where Triton's users look
// for it: {"<moment>":"<name>"}.
error *trace_report_custom(trace *t, uint64_t moment_ns, const char *name);
void trace_report_inputs(trace *t, const request *r);
void trace_report_outputs(trace *t, const response *r);

// Releases the trace to its maker, at once or with its last child.
void trace_release(trace *t_owned);

#endif
