// SPDX-License-Identifier: Apache-2.0
// Traces of inference requests, for all front ends: which requests are traced (settings of the
// server and of models), what is recorded, and where it goes: JSON files or an OpenTelemetry
// collector. See docs/tracing.md.
//
// A front end calls trace_begin for each request, gives the trace to TRITONSERVER_ServerInferAsync,
// records its own moments, and ends the trace with the reply. The thread "trace-export" writes or
// sends the record.
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

// Starts the service and takes over the configuration's content. Errors: UNAVAILABLE when tracing
// is on and the thread cannot be started or libcurl is missing.
error *trace_service_new(trace_config *config, trace_service **result);
// Writes all finished records and stops. Traces that end later are lost. NULL is allowed.
void trace_service_free(trace_service *s);

// --- One request

// May any request be traced? Cheap; saves callers a look at the clock. NULL is allowed.
bool trace_service_is_on(const trace_service *s);

// The client's W3C trace context: two header fields, empty if absent.
typedef struct trace_parent {
  slice traceparent;
  slice tracestate;
} trace_parent;

// Begins the trace of a request for `model`; NULL: it is not traced. The front end must call
// trace_end. `s` may be NULL. Any thread.
trace_record *trace_begin(trace_service *s, const char *model, const trace_parent *parent);

// The trace for TRITONSERVER_ServerInferAsync, which takes it over. Call at most once.
TRITONSERVER_InferenceTrace *trace_hand_over(trace_record *r);

// Records a moment of the front end; `name` is static. NULL is allowed. Any thread.
void trace_record_moment(trace_record *r, const char *name, uint64_t moment_ns);
void trace_record_now(trace_record *r, const char *name);

// Must the front end call trace_record_gpu_input? NULL is allowed.
bool trace_takes_gpu_inputs(const trace_record *r);
// Reads an input in GPU memory for the trace. Called by the thread that has the request, before it
// is submitted; may wait as long as the GPU is busy.
void trace_record_gpu_input(trace_record *r, TRITONSERVER_DataType datatype, const void *base,
                            size_t size, int64_t device);

// Ends the trace: the reply is sent, or the client is gone. NULL is allowed.
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

// A key's name in both protocols ("trace_level"); and whether a name is known.
const char *trace_key_name(trace_key key);
bool trace_key_is_known(const char *name);

// A member of a client's request. No values: clears the setting. The last of equal names counts.
typedef struct trace_member {
  const char *name;
  const slice *values;
  size_t count;
} trace_member;

// Changes the settings of `model`, or the server's for "". Unknown names are ignored with a log
// line. Errors in Triton's words: UNSUPPORTED for trace_file, INVALID_ARG for invalid values and
// for a result that has a level but traces nothing. The caller checks that the model exists.
error *trace_service_change(trace_service *s, const char *model, const trace_member *members,
                            size_t count);

// Appends the current settings as a JSON object in Triton's order: trace_level is a list, the
// others are texts. With `wrapped` each is {"value":[…]}, as in gRPC's messages.
void trace_service_print(trace_service *s, const char *model, bool wrapped, buffer *json);

#endif
