// SPDX-License-Identifier: Apache-2.0
// Traces of inference requests, for all front ends: which requests are traced (settings of the
// server and of models), what is kept of one, and where it goes: JSON files or an OpenTelemetry
// collector. docs/tracing.md.
//
// A front end asks trace_begin for each request, hands the trace to TRITONSERVER_ServerInferAsync,
// notes its own moments, and ends the trace with the reply. What was recorded is then written or
// sent by a thread of this directory ("trace-export"), never by a request's.
#ifndef NEREID_FRONTEND_TRACE_TRACE_H
#define NEREID_FRONTEND_TRACE_TRACE_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/slice.h"
#include "frontend/trace/trace_config.h"
#include "triton/core/tritonserver.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct trace_service trace_service;
typedef struct trace_record trace_record;

// Starts the service, which takes the configuration's content. Errors: UNAVAILABLE when tracing is
// on and its thread cannot be started or libcurl is missing.
error *trace_service_new(trace_config *config, trace_service **result);
// Writes what was recorded and stops. Traces that end later are lost. NULL is allowed.
void trace_service_free(trace_service *s);

// --- One request

// Whether any request may be traced; cheap, for those who would have to look at the clock.
bool trace_service_is_on(const trace_service *s);

// The client's W3C trace context: two header fields, empty when absent.
typedef struct trace_parent {
  slice traceparent;
  slice tracestate;
} trace_parent;

// The trace of a request for `model`, which the front end ends; NULL: it is not traced. `s` may be
// NULL. Any thread.
trace_record *trace_begin(trace_service *s, const char *model, const trace_parent *parent);

// The trace for TRITONSERVER_ServerInferAsync, which owns it from then on. Call at most once.
TRITONSERVER_InferenceTrace *trace_hand_over(trace_record *r);

// A moment of the front end, with a static name. NULL is allowed. Any thread.
void trace_record_moment(trace_record *r, const char *name, uint64_t moment_ns);
void trace_record_now(trace_record *r, const char *name);

// Whether trace_record_gpu_input is wanted. NULL is allowed.
bool trace_takes_gpu_inputs(const trace_record *r);
// Reads an input in memory of a GPU for the trace. By the thread that has the request, before it is
// submitted; may block for as long as the GPU is busy.
void trace_record_gpu_input(trace_record *r, TRITONSERVER_DataType datatype, const void *base,
                            size_t size, int64_t device);

// The reply is sent, or nobody waits for it. NULL is allowed.
void trace_end(trace_record *r);

// Names of the front ends' moments.
#define TRACE_HTTP_RECV_START         "HTTP_RECV_START"
#define TRACE_HTTP_RECV_END           "HTTP_RECV_END"
#define TRACE_HTTP_SEND_START         "HTTP_SEND_START"
#define TRACE_HTTP_SEND_END           "HTTP_SEND_END"
#define TRACE_GRPC_WAITREAD_START     "GRPC_WAITREAD_START"
#define TRACE_GRPC_WAITREAD_END       "GRPC_WAITREAD_END"
#define TRACE_GRPC_SEND_START         "GRPC_SEND_START"
#define TRACE_GRPC_SEND_END           "GRPC_SEND_END"
#define TRACE_INFER_RESPONSE_COMPLETE "INFER_RESPONSE_COMPLETE"

// --- Settings: the trace extension

// The name of a key in both protocols ("trace_level"), and whether `name` is one.
const char *trace_key_name(trace_key key);
bool trace_key_is_known(const char *name);

// A member of a client's request; no values clear the setting. Of several of a name the last
// counts.
typedef struct trace_member {
  const char *name;
  const slice *values;
  size_t count;
} trace_member;

// Changes the settings of `model`, or those of the server for "". What no setting is named is
// ignored, which the log is told. Errors in Triton's words: UNSUPPORTED for trace_file, INVALID_ARG
// for what is no value and for a result that would trace nothing though its level says otherwise.
// Whether the model exists is the caller's to check.
error *trace_service_change(trace_service *s, const char *model, const trace_member *members,
                            size_t count);

// Appends the settings in force as a JSON object, in Triton's order: trace_level is a list, the
// others are texts. `wrapped`: each is {"value":[…]}, as gRPC's messages have it.
void trace_service_print(trace_service *s, const char *model, bool wrapped, buffer *json);

#endif
