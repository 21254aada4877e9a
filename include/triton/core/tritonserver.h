// SPDX-License-Identifier: Apache-2.0
// The in-process interface of the server ("north seam"): what front ends and programs that
// embed the server call. Binary compatible with Triton Inference Server's C API of the version
// below: names, signatures, enumerators.
//
// Rules that hold for every function unless its own comment says otherwise:
//  - The returned TRITONSERVER_Error is NULL on success. Otherwise the caller owns it
//    (TRITONSERVER_ErrorDelete), and results stored through pointers are not valid.
//  - The caller owns the object that a ...New function makes, and releases it with the matching
//    ...Delete.
//  - Strings and arrays that are passed in are copied. Strings and arrays that come out are
//    borrowed: they live as long as the object that they were asked from and until it is
//    changed.
//  - Pointers must not be NULL.
//  - Functions on a server, on errors, on the log and on metrics may be called from any thread.
//    Any other object belongs to one thread at a time.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TRITONSERVER_DECLSPEC __attribute__((visibility("default")))
#else
#define TRITONSERVER_DECLSPEC
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define TRITONSERVER_API_VERSION_MAJOR 1
#define TRITONSERVER_API_VERSION_MINOR 34

typedef struct TRITONSERVER_BufferAttributes TRITONSERVER_BufferAttributes;
typedef struct TRITONSERVER_Error TRITONSERVER_Error;
typedef struct TRITONSERVER_InferenceRequest TRITONSERVER_InferenceRequest;
typedef struct TRITONSERVER_InferenceResponse TRITONSERVER_InferenceResponse;
typedef struct TRITONSERVER_InferenceTrace TRITONSERVER_InferenceTrace;
typedef struct TRITONSERVER_Message TRITONSERVER_Message;
typedef struct TRITONSERVER_Metrics TRITONSERVER_Metrics;
typedef struct TRITONSERVER_Parameter TRITONSERVER_Parameter;
typedef struct TRITONSERVER_ResponseAllocator TRITONSERVER_ResponseAllocator;
typedef struct TRITONSERVER_Server TRITONSERVER_Server;
typedef struct TRITONSERVER_ServerOptions TRITONSERVER_ServerOptions;
typedef struct TRITONSERVER_Metric TRITONSERVER_Metric;
typedef struct TRITONSERVER_MetricFamily TRITONSERVER_MetricFamily;
typedef struct TRITONSERVER_MetricArgs TRITONSERVER_MetricArgs;

// --- API version

/// The version that this library implements. A program built against MAJOR.MINOR runs with any
/// library whose major is equal and whose minor is not smaller.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *TRITONSERVER_ApiVersion(uint32_t *major, uint32_t *minor);

// --- Data types and other enumerations

/// Element types of tensors. BYTES elements have no fixed size: in a buffer each is a 4-byte
/// little-endian length followed by that many bytes.
typedef enum TRITONSERVER_datatype_enum {
  TRITONSERVER_TYPE_INVALID,
  TRITONSERVER_TYPE_BOOL,
  TRITONSERVER_TYPE_UINT8,
  TRITONSERVER_TYPE_UINT16,
  TRITONSERVER_TYPE_UINT32,
  TRITONSERVER_TYPE_UINT64,
  TRITONSERVER_TYPE_INT8,
  TRITONSERVER_TYPE_INT16,
  TRITONSERVER_TYPE_INT32,
  TRITONSERVER_TYPE_INT64,
  TRITONSERVER_TYPE_FP16,
  TRITONSERVER_TYPE_FP32,
  TRITONSERVER_TYPE_FP64,
  TRITONSERVER_TYPE_BYTES,
  TRITONSERVER_TYPE_BF16
} TRITONSERVER_DataType;

/// Name of a data type as the KServe protocol writes it ("FP32"), "<invalid>" for anything
/// else. The string is static.
TRITONSERVER_DECLSPEC const char *TRITONSERVER_DataTypeString(TRITONSERVER_DataType datatype);

/// The inverse of TRITONSERVER_DataTypeString. TRITONSERVER_TYPE_INVALID when `dtype` is no
/// data type's name; names are upper case.
TRITONSERVER_DECLSPEC TRITONSERVER_DataType TRITONSERVER_StringToDataType(const char *dtype);

/// Bytes of one element; 0 for BYTES and for values that are no data type.
TRITONSERVER_DECLSPEC uint32_t TRITONSERVER_DataTypeByteSize(TRITONSERVER_DataType datatype);

/// The memory of a buffer. Its id is the CUDA device for GPU, else a NUMA hint, usually 0.
typedef enum TRITONSERVER_memorytype_enum {
  TRITONSERVER_MEMORY_CPU,
  TRITONSERVER_MEMORY_CPU_PINNED,
  TRITONSERVER_MEMORY_GPU
} TRITONSERVER_MemoryType;

/// "CPU", "CPU_PINNED", "GPU", else "<invalid>". The string is static.
TRITONSERVER_DECLSPEC const char *TRITONSERVER_MemoryTypeString(TRITONSERVER_MemoryType memtype);

/// Types of a parameter's value, with the C type behind a pointer to the value: STRING char[]
/// (NUL-terminated), INT int64_t, BOOL bool, DOUBLE double, BYTES the bytes.
typedef enum TRITONSERVER_parametertype_enum {
  TRITONSERVER_PARAMETER_STRING,
  TRITONSERVER_PARAMETER_INT,
  TRITONSERVER_PARAMETER_BOOL,
  TRITONSERVER_PARAMETER_DOUBLE,
  TRITONSERVER_PARAMETER_BYTES
} TRITONSERVER_ParameterType;

/// "STRING", "INT", "BOOL", "DOUBLE", "BYTES", else "<invalid>". The string is static.
TRITONSERVER_DECLSPEC const char *
TRITONSERVER_ParameterTypeString(TRITONSERVER_ParameterType paramtype);

/// Makes a named value; name and value are copied. `value` points to what `type` says. Returns
/// NULL for TRITONSERVER_PARAMETER_BYTES (see TRITONSERVER_ParameterBytesNew), for an unknown
/// type and when memory is short.
TRITONSERVER_DECLSPEC TRITONSERVER_Parameter *
TRITONSERVER_ParameterNew(const char *name, TRITONSERVER_ParameterType type, const void *value);

/// Makes a parameter of type BYTES. The bytes are NOT copied: they must stay valid as long as
/// the parameter does. Returns NULL when memory is short.
TRITONSERVER_DECLSPEC TRITONSERVER_Parameter *
TRITONSERVER_ParameterBytesNew(const char *name, const void *byte_ptr, uint64_t size);

/// Releases a parameter. NULL is allowed.
TRITONSERVER_DECLSPEC void TRITONSERVER_ParameterDelete(TRITONSERVER_Parameter *parameter);

/// The hardware for an instance of a model. MODEL leaves the choice to the model itself.
typedef enum TRITONSERVER_instancegroupkind_enum {
  TRITONSERVER_INSTANCEGROUPKIND_AUTO,
  TRITONSERVER_INSTANCEGROUPKIND_CPU,
  TRITONSERVER_INSTANCEGROUPKIND_GPU,
  TRITONSERVER_INSTANCEGROUPKIND_MODEL
} TRITONSERVER_InstanceGroupKind;

/// "AUTO", "CPU", "GPU", "MODEL", else "<invalid>". The string is static.
TRITONSERVER_DECLSPEC const char *
TRITONSERVER_InstanceGroupKindString(TRITONSERVER_InstanceGroupKind kind);

// --- Log

/// Severity of a log line. VERBOSE has levels of its own, see
/// TRITONSERVER_ServerOptionsSetLogVerbose.
typedef enum TRITONSERVER_loglevel_enum {
  TRITONSERVER_LOG_INFO,
  TRITONSERVER_LOG_WARN,
  TRITONSERVER_LOG_ERROR,
  TRITONSERVER_LOG_VERBOSE
} TRITONSERVER_LogLevel;

/// How a line begins: DEFAULT is "I0520 20:03:25.829575 3355 file.c:441] ", ISO8601 is
/// "2024-05-20T20:03:25Z I 3355 file.c:441] ". Control characters in a message are escaped as
/// in JSON, unless the environment has TRITON_SERVER_ESCAPE_LOG_MESSAGES=0.
typedef enum TRITONSERVER_logformat_enum {
  TRITONSERVER_LOG_DEFAULT,
  TRITONSERVER_LOG_ISO8601
} TRITONSERVER_LogFormat;

/// Whether a message of this level would be written now. Ask before building an expensive text. Any
/// thread.
TRITONSERVER_DECLSPEC bool TRITONSERVER_LogIsEnabled(TRITONSERVER_LogLevel level);

/// Writes one line when the level is enabled. `filename` and `line` are the place that it is about.
/// Any thread. INVALID_ARG for an unknown level.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *TRITONSERVER_LogMessage(TRITONSERVER_LogLevel level,
                                                                  const char *filename, int line,
                                                                  const char *msg);

// --- Errors

/// The kinds of errors that programs distinguish.
typedef enum TRITONSERVER_errorcode_enum {
  TRITONSERVER_ERROR_UNKNOWN,
  TRITONSERVER_ERROR_INTERNAL,
  TRITONSERVER_ERROR_NOT_FOUND,
  TRITONSERVER_ERROR_INVALID_ARG,
  TRITONSERVER_ERROR_UNAVAILABLE,
  TRITONSERVER_ERROR_UNSUPPORTED,
  TRITONSERVER_ERROR_ALREADY_EXISTS,
  TRITONSERVER_ERROR_CANCELLED
} TRITONSERVER_Error_Code;

/// Makes an error; `msg` is copied. The caller owns it until it gives it away or deletes it.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *TRITONSERVER_ErrorNew(TRITONSERVER_Error_Code code,
                                                                const char *msg);

/// Releases an error. NULL is allowed.
TRITONSERVER_DECLSPEC void TRITONSERVER_ErrorDelete(TRITONSERVER_Error *error);

/// The code given at creation.
TRITONSERVER_DECLSPEC TRITONSERVER_Error_Code TRITONSERVER_ErrorCode(TRITONSERVER_Error *error);

/// The code in words, e.g. "Invalid argument". The string is static.
TRITONSERVER_DECLSPEC const char *TRITONSERVER_ErrorCodeString(TRITONSERVER_Error *error);

/// The message. Valid until the error is deleted.
TRITONSERVER_DECLSPEC const char *TRITONSERVER_ErrorMessage(TRITONSERVER_Error *error);

// --- Response allocator: provides the memory of output tensors

/// Provides a buffer of `byte_size` bytes for the output `tensor_name`. `memory_type` and
/// `memory_type_id` are the model's wish; the function stores the actual ones. `userp` is the
/// pointer registered with the request; `*buffer_userp` is the function's own tag for this buffer,
/// handed to the release function and shown by TRITONSERVER_InferenceResponseOutput. With
/// `byte_size` 0 `*buffer` may be NULL. On an error the outputs are ignored and the response fails
/// with that error. Called on the thread that produces the response; calls for different responses
/// may run at the same time.
typedef TRITONSERVER_Error *(*TRITONSERVER_ResponseAllocatorAllocFn_t)(
    TRITONSERVER_ResponseAllocator *allocator, const char *tensor_name, size_t byte_size,
    TRITONSERVER_MemoryType memory_type, int64_t memory_type_id, void *userp, void **buffer,
    void **buffer_userp, TRITONSERVER_MemoryType *actual_memory_type,
    int64_t *actual_memory_type_id);

/// Called, when set, right after the allocation function: may refine `buffer_attributes` (for
/// example add a CUDA IPC handle) for the buffer tagged `buffer_userp`. The attributes belong
/// to the server.
typedef TRITONSERVER_Error *(*TRITONSERVER_ResponseAllocatorBufferAttributesFn_t)(
    TRITONSERVER_ResponseAllocator *allocator, const char *tensor_name,
    TRITONSERVER_BufferAttributes *buffer_attributes, void *userp, void *buffer_userp);

/// Says in advance where a buffer for `tensor_name` would be. On entry the two memory arguments
/// hold the model's wish, on return the answer. `tensor_name` and `byte_size` may be NULL when
/// the server does not know them yet. Nothing is allocated.
typedef TRITONSERVER_Error *(*TRITONSERVER_ResponseAllocatorQueryFn_t)(
    TRITONSERVER_ResponseAllocator *allocator, void *userp, const char *tensor_name,
    size_t *byte_size, TRITONSERVER_MemoryType *memory_type, int64_t *memory_type_id);

/// Takes back a buffer that the allocation function gave. Called once for each, when its
/// response is deleted, on whatever thread does that. An error is logged only.
typedef TRITONSERVER_Error *(*TRITONSERVER_ResponseAllocatorReleaseFn_t)(
    TRITONSERVER_ResponseAllocator *allocator, void *buffer, void *buffer_userp, size_t byte_size,
    TRITONSERVER_MemoryType memory_type, int64_t memory_type_id);

/// Announces that the allocations of one more response begin. An error fails that response.
typedef TRITONSERVER_Error *(*TRITONSERVER_ResponseAllocatorStartFn_t)(
    TRITONSERVER_ResponseAllocator *allocator, void *userp);

/// Makes an allocator of functions. `alloc_fn` and `release_fn` are needed, `start_fn` may be
/// NULL. One allocator may serve any number of requests and must outlive all their responses.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ResponseAllocatorNew(TRITONSERVER_ResponseAllocator **allocator,
                                  TRITONSERVER_ResponseAllocatorAllocFn_t alloc_fn,
                                  TRITONSERVER_ResponseAllocatorReleaseFn_t release_fn,
                                  TRITONSERVER_ResponseAllocatorStartFn_t start_fn);

/// Adds the optional buffer-attributes function; before first use only.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *TRITONSERVER_ResponseAllocatorSetBufferAttributesFunction(
    TRITONSERVER_ResponseAllocator *allocator,
    TRITONSERVER_ResponseAllocatorBufferAttributesFn_t buffer_attributes_fn);

/// Adds the optional query function; before first use only.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ResponseAllocatorSetQueryFunction(TRITONSERVER_ResponseAllocator *allocator,
                                               TRITONSERVER_ResponseAllocatorQueryFn_t query_fn);

/// Releases an allocator that no request and no response uses any more.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ResponseAllocatorDelete(TRITONSERVER_ResponseAllocator *allocator);

// --- Messages: JSON texts that cross the interface

/// Makes a message of a copy of `byte_size` bytes at `base`. The text is not checked; readers of
/// the message check it.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_MessageNewFromSerializedJson(TRITONSERVER_Message **message, const char *base,
                                          size_t byte_size);

/// Releases a message and its text.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *TRITONSERVER_MessageDelete(TRITONSERVER_Message *message);

/// The message's JSON text: `*byte_size` bytes, not necessarily NUL-terminated, owned by the
/// message.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_MessageSerializeToJson(TRITONSERVER_Message *message, const char **base,
                                    size_t *byte_size);

// --- Metrics snapshot

/// Text formats of TRITONSERVER_MetricsFormatted.
typedef enum tritonserver_metricformat_enum {
  TRITONSERVER_METRIC_PROMETHEUS
} TRITONSERVER_MetricFormat;

/// Releases a snapshot from TRITONSERVER_ServerMetrics, with its text.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *TRITONSERVER_MetricsDelete(TRITONSERVER_Metrics *metrics);

/// The metrics as text in `format`. The text is owned by `metrics` and valid until the next
/// call on it. INVALID_ARG for an unknown format.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_MetricsFormatted(TRITONSERVER_Metrics *metrics, TRITONSERVER_MetricFormat format,
                              const char **base, size_t *byte_size);

// --- Traces of single requests

/// The contents of a trace; bits that may be combined. MIN and MAX are old names, taken as
/// TIMESTAMPS.
typedef enum tritonserver_tracelevel_enum {

  TRITONSERVER_TRACE_LEVEL_DISABLED = 0,

  TRITONSERVER_TRACE_LEVEL_MIN = 1,

  TRITONSERVER_TRACE_LEVEL_MAX = 2,

  TRITONSERVER_TRACE_LEVEL_TIMESTAMPS = 0x4,

  TRITONSERVER_TRACE_LEVEL_TENSORS = 0x8
} TRITONSERVER_InferenceTraceLevel;

/// The level's name ("TIMESTAMPS"), "<unknown>" for anything else. The string is static.
TRITONSERVER_DECLSPEC const char *
TRITONSERVER_InferenceTraceLevelString(TRITONSERVER_InferenceTraceLevel level);

/// The moments that a trace reports. The first seven carry times, the TENSOR_ ones tensors,
/// CUSTOM_ACTIVITY is a backend's own.
typedef enum tritonserver_traceactivity_enum {
  TRITONSERVER_TRACE_REQUEST_START = 0,
  TRITONSERVER_TRACE_QUEUE_START = 1,
  TRITONSERVER_TRACE_COMPUTE_START = 2,
  TRITONSERVER_TRACE_COMPUTE_INPUT_END = 3,
  TRITONSERVER_TRACE_COMPUTE_OUTPUT_START = 4,
  TRITONSERVER_TRACE_COMPUTE_END = 5,
  TRITONSERVER_TRACE_REQUEST_END = 6,
  TRITONSERVER_TRACE_TENSOR_QUEUE_INPUT = 7,
  TRITONSERVER_TRACE_TENSOR_BACKEND_INPUT = 8,
  TRITONSERVER_TRACE_TENSOR_BACKEND_OUTPUT = 9,
  TRITONSERVER_TRACE_CUSTOM_ACTIVITY = 10
} TRITONSERVER_InferenceTraceActivity;

/// The activity's name without its prefix ("REQUEST_START"), "<unknown>" for anything else. The
/// string is static.
TRITONSERVER_DECLSPEC const char *
TRITONSERVER_InferenceTraceActivityString(TRITONSERVER_InferenceTraceActivity activity);

/// Receives one moment of a request (nanoseconds of the monotonic clock). Called on whatever
/// thread the moment happens; `trace` is only lent.
typedef void (*TRITONSERVER_InferenceTraceActivityFn_t)(
    TRITONSERVER_InferenceTrace *trace, TRITONSERVER_InferenceTraceActivity activity,
    uint64_t timestamp_ns, void *userp);

/// Receives one tensor of a request; everything pointed to is only lent for the call.
typedef void (*TRITONSERVER_InferenceTraceTensorActivityFn_t)(
    TRITONSERVER_InferenceTrace *trace, TRITONSERVER_InferenceTraceActivity activity,
    const char *name, TRITONSERVER_DataType datatype, const void *base, size_t byte_size,
    const int64_t *shape, uint64_t dim_count, TRITONSERVER_MemoryType memory_type,
    int64_t memory_type_id, void *userp);

/// Gives `trace` back to its maker, who deletes it, after all traces spawned from it. No activity
/// is reported on it afterwards.
typedef void (*TRITONSERVER_InferenceTraceReleaseFn_t)(TRITONSERVER_InferenceTrace *trace,
                                                       void *userp);

/// Makes a trace that reports timestamps. `parent_id` is 0 without a parent. Ownership goes to
/// the server with TRITONSERVER_ServerInferAsync and comes back through `release_fn`.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *TRITONSERVER_InferenceTraceNew(
    TRITONSERVER_InferenceTrace **trace, TRITONSERVER_InferenceTraceLevel level, uint64_t parent_id,
    TRITONSERVER_InferenceTraceActivityFn_t activity_fn,
    TRITONSERVER_InferenceTraceReleaseFn_t release_fn, void *trace_userp);

/// As TRITONSERVER_InferenceTraceNew, with a function that receives tensors too.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *TRITONSERVER_InferenceTraceTensorNew(
    TRITONSERVER_InferenceTrace **trace, TRITONSERVER_InferenceTraceLevel level, uint64_t parent_id,
    TRITONSERVER_InferenceTraceActivityFn_t activity_fn,
    TRITONSERVER_InferenceTraceTensorActivityFn_t tensor_activity_fn,
    TRITONSERVER_InferenceTraceReleaseFn_t release_fn, void *trace_userp);

/// Reports a CUSTOM_ACTIVITY named `activity_name` at `timestamp` nanoseconds.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceTraceReportActivity(TRITONSERVER_InferenceTrace *trace, uint64_t timestamp,
                                          const char *activity_name);

/// Releases a trace that the caller owns.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceTraceDelete(TRITONSERVER_InferenceTrace *trace);

/// The trace's id, unique in this process.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceTraceId(TRITONSERVER_InferenceTrace *trace, uint64_t *id);

/// The id of the trace that this one was spawned from, 0 for none.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceTraceParentId(TRITONSERVER_InferenceTrace *trace, uint64_t *parent_id);

/// The model that the traced request went to; borrowed.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceTraceModelName(TRITONSERVER_InferenceTrace *trace, const char **model_name);

/// The version that the traced request went to.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceTraceModelVersion(TRITONSERVER_InferenceTrace *trace, int64_t *model_version);

/// The id of the traced request; borrowed.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceTraceRequestId(TRITONSERVER_InferenceTrace *trace, const char **request_id);

/// Makes a trace with the same functions whose parent is `trace`, e.g. for a step of an
/// ensemble. The caller owns the child and must hand it to the server or delete it; NULL trace
/// gives a NULL child.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceTraceSpawnChildTrace(TRITONSERVER_InferenceTrace *trace,
                                           TRITONSERVER_InferenceTrace **child_trace);

/// Attaches a context text (such as OpenTelemetry's propagation headers); it is copied.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceTraceSetContext(TRITONSERVER_InferenceTrace *trace,
                                      const char *trace_context);

/// The context text, "" when none was set; borrowed.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceTraceContext(TRITONSERVER_InferenceTrace *trace, const char **trace_context);

// --- Inference requests

/// Bits of TRITONSERVER_InferenceRequestSetFlags: the request begins or ends its sequence.
typedef enum tritonserver_requestflag_enum {
  TRITONSERVER_REQUEST_FLAG_SEQUENCE_START = 1,
  TRITONSERVER_REQUEST_FLAG_SEQUENCE_END = 2
} TRITONSERVER_RequestFlag;

/// Why a request is released. ALL: the server is done with it. RESCHEDULE (from a backend
/// only): the server shall queue it again.
typedef enum tritonserver_requestreleaseflag_enum {
  TRITONSERVER_REQUEST_RELEASE_ALL = 1,
  TRITONSERVER_REQUEST_RELEASE_RESCHEDULE = 2
} TRITONSERVER_RequestReleaseFlag;

/// Bits of a response callback. FINAL: no further response comes for this request.
typedef enum tritonserver_responsecompleteflag_enum {
  TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1
} TRITONSERVER_ResponseCompleteFlag;

/// Gives a request back: from this call on it belongs to the caller again, who may change,
/// reuse or delete it. Runs on a server thread and must not block. It may run before the last
/// response.
typedef void (*TRITONSERVER_InferenceRequestReleaseFn_t)(TRITONSERVER_InferenceRequest *request,
                                                         uint32_t flags, void *userp);

/// Receives a response, which the callee owns and deletes. `response` is NULL when `flags` has
/// FINAL and there is nothing else to send. Runs on a server thread and must not block.
typedef void (*TRITONSERVER_InferenceResponseCompleteFn_t)(TRITONSERVER_InferenceResponse *response,
                                                           uint32_t flags, void *userp);

/// Makes an empty request for a model that must be loaded. `model_version` -1 lets the model's
/// version policy choose. The request keeps that model version alive. NOT_FOUND for an unknown
/// model or version, UNAVAILABLE while it is not ready.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceRequestNew(TRITONSERVER_InferenceRequest **inference_request,
                                 TRITONSERVER_Server *server, const char *model_name,
                                 int64_t model_version);

/// Releases a request that the caller owns: not between TRITONSERVER_ServerInferAsync and the
/// release callback.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceRequestDelete(TRITONSERVER_InferenceRequest *inference_request);

/// The request's id, "" when none was set; borrowed.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceRequestId(TRITONSERVER_InferenceRequest *inference_request, const char **id);

/// Sets the id that responses and logs repeat. Need not be unique.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceRequestSetId(TRITONSERVER_InferenceRequest *inference_request,
                                   const char *id);

/// The TRITONSERVER_RequestFlag bits.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceRequestFlags(TRITONSERVER_InferenceRequest *inference_request,
                                   uint32_t *flags);

/// Sets the TRITONSERVER_RequestFlag bits.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceRequestSetFlags(TRITONSERVER_InferenceRequest *inference_request,
                                      uint32_t flags);

/// The sequence's id as a number, 0 outside a sequence. INVALID_ARG when it was set as a
/// string.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceRequestCorrelationId(TRITONSERVER_InferenceRequest *inference_request,
                                           uint64_t *correlation_id);

/// The sequence's id as a string; borrowed. INVALID_ARG when it was set as a number.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceRequestCorrelationIdString(TRITONSERVER_InferenceRequest *inference_request,
                                                 const char **correlation_id);

/// Puts the request into sequence `correlation_id`; 0 into none.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceRequestSetCorrelationId(TRITONSERVER_InferenceRequest *inference_request,
                                              uint64_t correlation_id);

/// Puts the request into the sequence of that name; "" into none. UNSUPPORTED when it is longer
/// than 128 bytes.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetCorrelationIdString(
    TRITONSERVER_InferenceRequest *inference_request, const char *correlation_id);

/// Asks for cancellation. The request ends with CANCELLED if the server or its backend can still
/// end it; a response that is under way arrives normally. Any thread, as long as the request
/// exists.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceRequestCancel(TRITONSERVER_InferenceRequest *inference_request);

/// Was cancellation asked for? Any thread.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceRequestIsCancelled(TRITONSERVER_InferenceRequest *inference_request,
                                         bool *is_cancelled);

/// Deprecated: the priority in 32 bits; INVALID_ARG when it does not fit.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceRequestPriority(TRITONSERVER_InferenceRequest *inference_request,
                                      uint32_t *priority);

/// The priority, 0 for the model's default.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceRequestPriorityUInt64(TRITONSERVER_InferenceRequest *inference_request,
                                            uint64_t *priority);

/// Deprecated: TRITONSERVER_InferenceRequestSetPriorityUInt64 in 32 bits.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceRequestSetPriority(TRITONSERVER_InferenceRequest *inference_request,
                                         uint32_t priority);

/// Sets the priority: 1 is the highest, 0 the model's default. A value beyond the model's
/// levels is taken as the default.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceRequestSetPriorityUInt64(TRITONSERVER_InferenceRequest *inference_request,
                                               uint64_t priority);

/// The timeout, 0 for none.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceRequestTimeoutMicroseconds(TRITONSERVER_InferenceRequest *inference_request,
                                                 uint64_t *timeout_us);

/// Sets how long the request may wait in the queue, if the model's queue policy permits that; 0 for
/// no limit.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetTimeoutMicroseconds(
    TRITONSERVER_InferenceRequest *inference_request, uint64_t timeout_us);

/// Adds an input of `dim_count` dimensions, without data yet. For a model that batches the
/// first dimension is the batch. INVALID_ARG when the request has an input of that name.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceRequestAddInput(TRITONSERVER_InferenceRequest *inference_request,
                                      const char *name, TRITONSERVER_DataType datatype,
                                      const int64_t *shape, uint64_t dim_count);

/// Adds the one input of a request whose data type and shape the server takes from the model's
/// configuration and the size of the data. Excludes any other input.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceRequestAddRawInput(TRITONSERVER_InferenceRequest *inference_request,
                                         const char *name);

/// Removes an input with its data.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceRequestRemoveInput(TRITONSERVER_InferenceRequest *inference_request,
                                         const char *name);

/// Removes all inputs with their data.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceRequestRemoveAllInputs(TRITONSERVER_InferenceRequest *inference_request);

/// Adds `byte_size` bytes at `base` to the end of an input's data. Nothing is copied: the
/// memory must stay valid and unchanged until the request is released.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *TRITONSERVER_InferenceRequestAppendInputData(
    TRITONSERVER_InferenceRequest *inference_request, const char *name, const void *base,
    size_t byte_size, TRITONSERVER_MemoryType memory_type, int64_t memory_type_id);

/// As TRITONSERVER_InferenceRequestAppendInputData, for instances that run under
/// `host_policy_name`. Where an input has data for a policy, that replaces the data given
/// without one.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceRequestAppendInputDataWithHostPolicy(
    TRITONSERVER_InferenceRequest *inference_request, const char *name, const void *base,
    size_t byte_size, TRITONSERVER_MemoryType memory_type, int64_t memory_type_id,
    const char *host_policy_name);

/// As TRITONSERVER_InferenceRequestAppendInputData; size and place come from
/// `buffer_attributes`, which are copied.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceRequestAppendInputDataWithBufferAttributes(
    TRITONSERVER_InferenceRequest *inference_request, const char *name, const void *base,
    TRITONSERVER_BufferAttributes *buffer_attributes);

/// Forgets an input's data, of every host policy, and keeps the input.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceRequestRemoveAllInputData(TRITONSERVER_InferenceRequest *inference_request,
                                                const char *name);

/// Asks for an output. A request that asks for none gets all of them.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceRequestAddRequestedOutput(TRITONSERVER_InferenceRequest *inference_request,
                                                const char *name);

/// Takes back TRITONSERVER_InferenceRequestAddRequestedOutput.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceRequestRemoveRequestedOutput(TRITONSERVER_InferenceRequest *inference_request,
                                                   const char *name);

/// Asks for no output by name, that is, for all.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *TRITONSERVER_InferenceRequestRemoveAllRequestedOutputs(
    TRITONSERVER_InferenceRequest *inference_request);

/// Sets the callback that gets the request back. Needed before TRITONSERVER_ServerInferAsync.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetReleaseCallback(
    TRITONSERVER_InferenceRequest *inference_request,
    TRITONSERVER_InferenceRequestReleaseFn_t request_release_fn, void *request_release_userp);

/// Sets the allocator of output memory and the callback for responses. Needed before
/// TRITONSERVER_ServerInferAsync. The allocator is borrowed and must outlive the responses.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetResponseCallback(
    TRITONSERVER_InferenceRequest *inference_request,
    TRITONSERVER_ResponseAllocator *response_allocator, void *response_allocator_userp,
    TRITONSERVER_InferenceResponseCompleteFn_t response_fn, void *response_userp);

/// Adds a parameter for the backend; key and value are copied.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceRequestSetStringParameter(TRITONSERVER_InferenceRequest *request,
                                                const char *key, const char *value);

/// As TRITONSERVER_InferenceRequestSetStringParameter, with an integer.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceRequestSetIntParameter(TRITONSERVER_InferenceRequest *request,
                                             const char *key, int64_t value);

/// As TRITONSERVER_InferenceRequestSetStringParameter, with a bool.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceRequestSetBoolParameter(TRITONSERVER_InferenceRequest *request,
                                              const char *key, bool value);

/// As TRITONSERVER_InferenceRequestSetStringParameter, with a double.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceRequestSetDoubleParameter(TRITONSERVER_InferenceRequest *request,
                                                const char *key, double value);

// --- Inference responses

/// Releases a response; its buffers go back through the allocator's release function.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceResponseDelete(TRITONSERVER_InferenceResponse *inference_response);

/// The response's error, NULL when the inference succeeded. Each call makes one, for
/// TRITONSERVER_ErrorDelete. (Triton's header says that it is the response's; its code does this.)
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceResponseError(TRITONSERVER_InferenceResponse *inference_response);

/// The model and the version that answered; the name is borrowed.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceResponseModel(TRITONSERVER_InferenceResponse *inference_response,
                                    const char **model_name, int64_t *model_version);

/// The id of the request that this answers; borrowed.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceResponseId(TRITONSERVER_InferenceResponse *inference_response,
                                 const char **request_id);

/// How many parameters the response has.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceResponseParameterCount(TRITONSERVER_InferenceResponse *inference_response,
                                             uint32_t *count);

/// Parameter `index`. What `*vvalue` points to depends on the type, see
/// TRITONSERVER_ParameterType; name and value are borrowed. INVALID_ARG when `index` is out of
/// range.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceResponseParameter(TRITONSERVER_InferenceResponse *inference_response,
                                        uint32_t index, const char **name,
                                        TRITONSERVER_ParameterType *type, const void **vvalue);

/// How many outputs the response has.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_InferenceResponseOutputCount(TRITONSERVER_InferenceResponse *inference_response,
                                          uint32_t *count);

/// Output `index`: name, shape and data are borrowed from the response. `*userp` is the tag
/// that the allocation function gave to the buffer. INVALID_ARG when `index` is out of range.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *TRITONSERVER_InferenceResponseOutput(
    TRITONSERVER_InferenceResponse *inference_response, uint32_t index, const char **name,
    TRITONSERVER_DataType *datatype, const int64_t **shape, uint64_t *dim_count, const void **base,
    size_t *byte_size, TRITONSERVER_MemoryType *memory_type, int64_t *memory_type_id, void **userp);

/// The label of class `class_index` of output `index`, NULL when the model has no label for it;
/// borrowed.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *TRITONSERVER_InferenceResponseOutputClassificationLabel(
    TRITONSERVER_InferenceResponse *inference_response, uint32_t index, size_t class_index,
    const char **label);

// --- Buffer attributes: size and place of a buffer

/// Makes attributes of an empty buffer in CPU memory, id 0, without IPC handle.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_BufferAttributesNew(TRITONSERVER_BufferAttributes **buffer_attributes);

/// Releases attributes that the caller made. NULL is allowed.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_BufferAttributesDelete(TRITONSERVER_BufferAttributes *buffer_attributes);

/// Sets the memory's id.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_BufferAttributesSetMemoryTypeId(TRITONSERVER_BufferAttributes *buffer_attributes,
                                             int64_t memory_type_id);

/// Sets the memory's type.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_BufferAttributesSetMemoryType(TRITONSERVER_BufferAttributes *buffer_attributes,
                                           TRITONSERVER_MemoryType memory_type);

/// Copies the 64 bytes of a cudaIpcMemHandle_t.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_BufferAttributesSetCudaIpcHandle(TRITONSERVER_BufferAttributes *buffer_attributes,
                                              void *cuda_ipc_handle);

/// Sets the buffer's size.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_BufferAttributesSetByteSize(TRITONSERVER_BufferAttributes *buffer_attributes,
                                         size_t byte_size);

/// The memory's id.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_BufferAttributesMemoryTypeId(TRITONSERVER_BufferAttributes *buffer_attributes,
                                          int64_t *memory_type_id);

/// The memory's type.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_BufferAttributesMemoryType(TRITONSERVER_BufferAttributes *buffer_attributes,
                                        TRITONSERVER_MemoryType *memory_type);

/// The 64 bytes of the CUDA IPC handle, borrowed; NULL when there is none.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_BufferAttributesCudaIpcHandle(TRITONSERVER_BufferAttributes *buffer_attributes,
                                           void **cuda_ipc_handle);

/// The buffer's size.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_BufferAttributesByteSize(TRITONSERVER_BufferAttributes *buffer_attributes,
                                      size_t *byte_size);

// --- Server options. Set before TRITONSERVER_ServerNew, which copies what it needs; the log's
// --- settings work at once, also on a running server and with NULL options.

/// Which models are served: NONE all of the repository, once; POLL follows changes; EXPLICIT
/// only those named and loaded on request.
typedef enum tritonserver_modelcontrolmode_enum {
  TRITONSERVER_MODEL_CONTROL_NONE,
  TRITONSERVER_MODEL_CONTROL_POLL,
  TRITONSERVER_MODEL_CONTROL_EXPLICIT
} TRITONSERVER_ModelControlMode;

/// Whether instances wait for the resources that their rate limiter configuration names.
typedef enum tritonserver_ratelimitmode_enum {
  TRITONSERVER_RATE_LIMIT_OFF,
  TRITONSERVER_RATE_LIMIT_EXEC_COUNT
} TRITONSERVER_RateLimitMode;

/// Makes options with the server's defaults.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsNew(TRITONSERVER_ServerOptions **options);

/// Releases options; a server made from them keeps its copy. NULL is allowed.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsDelete(TRITONSERVER_ServerOptions *options);

/// The name that the server's metadata shows ("triton").
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetServerId(TRITONSERVER_ServerOptions *options, const char *server_id);

/// Adds a model repository. May be called repeatedly; the same path twice counts once.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetModelRepositoryPath(TRITONSERVER_ServerOptions *options,
                                                 const char *model_repository_path);

/// Sets how models are chosen for loading (POLL). INVALID_ARG for an unknown mode.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetModelControlMode(TRITONSERVER_ServerOptions *options,
                                              TRITONSERVER_ModelControlMode mode);

/// With EXPLICIT control: adds a model to load at start; "*" means all. May be called
/// repeatedly.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetStartupModel(TRITONSERVER_ServerOptions *options,
                                          const char *model_name);

/// True: every model needs a complete configuration. False: missing fields are filled in from the
/// model file (true).
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetStrictModelConfig(TRITONSERVER_ServerOptions *options, bool strict);

/// Names an alternative configuration: configs/NAME.pbtxt of a model's directory is used where it
/// exists ("").
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetModelConfigName(TRITONSERVER_ServerOptions *options,
                                             const char *model_config_name);

/// Turns the rate limiter on (OFF). INVALID_ARG for an unknown mode.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetRateLimiterMode(TRITONSERVER_ServerOptions *options,
                                             TRITONSERVER_RateLimitMode mode);

/// States how many of a resource exist on `device`, -1 for a resource of the whole server. Of
/// several statements the smallest counts.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsAddRateLimiterResource(TRITONSERVER_ServerOptions *options,
                                                 const char *resource_name, size_t resource_count,
                                                 int device);

/// Size of the pool of pinned host memory (256 MiB).
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetPinnedMemoryPoolByteSize(TRITONSERVER_ServerOptions *options,
                                                      uint64_t size);

/// Size of the memory pool of one GPU (64 MiB).
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetCudaMemoryPoolByteSize(TRITONSERVER_ServerOptions *options,
                                                    int gpu_device, uint64_t size);

/// Address space to reserve on one GPU for implicit state that grows (1 GiB).
TRITONSERVER_DECLSPEC TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetCudaVirtualAddressSize(
    TRITONSERVER_ServerOptions *options, int gpu_device, size_t cuda_virtual_address_size);

/// Deprecated: the cache "local" with that size; 0 does nothing.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetResponseCacheByteSize(TRITONSERVER_ServerOptions *options,
                                                   uint64_t size);

/// Turns on the response cache `cache_name` with a configuration in JSON. Given again, the last
/// one counts.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetCacheConfig(TRITONSERVER_ServerOptions *options,
                                         const char *cache_name, const char *config_json);

/// The directory with cache libraries.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetCacheDirectory(TRITONSERVER_ServerOptions *options,
                                            const char *cache_dir);

/// GPUs below this CUDA compute capability are not used.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetMinSupportedComputeCapability(TRITONSERVER_ServerOptions *options,
                                                           double cc);

/// True: TRITONSERVER_ServerNew fails when a start-up model does (true).
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetExitOnError(TRITONSERVER_ServerOptions *options, bool exit);

/// True: the server is ready only when all its models are (true).
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetStrictReadiness(TRITONSERVER_ServerOptions *options, bool strict);

/// Seconds that TRITONSERVER_ServerStop waits for requests and models (30).
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetExitTimeout(TRITONSERVER_ServerOptions *options, unsigned int timeout);

/// Threads that help to gather inputs and scatter outputs (0).
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetBufferManagerThreadCount(TRITONSERVER_ServerOptions *options,
                                                      unsigned int thread_count);

/// How many models load at the same time (4).
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetModelLoadThreadCount(TRITONSERVER_ServerOptions *options,
                                                  unsigned int thread_count);

/// How often a failed load is tried again (0).
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetModelLoadRetryCount(TRITONSERVER_ServerOptions *options,
                                                 unsigned int retry_count);

/// True: models of the same name may live in several repositories (false).
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetModelNamespacing(TRITONSERVER_ServerOptions *options,
                                              bool enable_namespace);

/// Allow direct copies between GPUs where the hardware can.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetEnablePeerAccess(TRITONSERVER_ServerOptions *options,
                                              bool enable_peer_access);

/// Writes the log into `file` from now on; NULL or "" for the standard streams. On an error the log
/// stays where it was.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetLogFile(TRITONSERVER_ServerOptions *options, const char *file);

/// Turns lines of level INFO on or off.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetLogInfo(TRITONSERVER_ServerOptions *options, bool log);

/// Turns lines of level WARN on or off.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetLogWarn(TRITONSERVER_ServerOptions *options, bool log);

/// Turns lines of level ERROR on or off.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetLogError(TRITONSERVER_ServerOptions *options, bool log);

/// Sets how lines begin. INVALID_ARG for an unknown format.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetLogFormat(TRITONSERVER_ServerOptions *options,
                                       TRITONSERVER_LogFormat format);

/// Sets the highest verbose level that is written; 0 for none.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetLogVerbose(TRITONSERVER_ServerOptions *options, int level);

/// Collect metrics (true).
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetMetrics(TRITONSERVER_ServerOptions *options, bool metrics);

/// Collect the GPUs' metrics, if metrics are on (true).
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetGpuMetrics(TRITONSERVER_ServerOptions *options, bool gpu_metrics);

/// Collect the CPU's metrics, if metrics are on (true).
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetCpuMetrics(TRITONSERVER_ServerOptions *options, bool cpu_metrics);

/// Milliseconds between two samples of CPU and GPU (2000).
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetMetricsInterval(TRITONSERVER_ServerOptions *options,
                                             uint64_t metrics_interval_ms);

/// The directory with backend libraries.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetBackendDirectory(TRITONSERVER_ServerOptions *options,
                                              const char *backend_dir);

/// The directory with repository agents.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetRepoAgentDirectory(TRITONSERVER_ServerOptions *options,
                                                const char *repoagent_dir);

/// Refuse to load a model when the GPU's memory in use is above `fraction` of it (0.0 to 1.0).
/// INVALID_ARG for another kind than GPU, a negative device and a fraction out of range.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetModelLoadDeviceLimit(TRITONSERVER_ServerOptions *options,
                                                  TRITONSERVER_InstanceGroupKind kind,
                                                  int device_id, double fraction);

/// Adds setting=value for one backend; with `backend_name` "" for all of them and the server
/// itself.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetBackendConfig(TRITONSERVER_ServerOptions *options,
                                           const char *backend_name, const char *setting,
                                           const char *value);

/// Sets "numa-node" or "cpu-cores" of a host policy; any other setting is UNSUPPORTED.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetHostPolicy(TRITONSERVER_ServerOptions *options,
                                        const char *policy_name, const char *setting,
                                        const char *value);

/// Adds setting=value for one group of metrics; with `name` "" for metrics as a whole.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetMetricsConfig(TRITONSERVER_ServerOptions *options, const char *name,
                                           const char *setting, const char *value);

// --- Server. Every function of this part may be called from any thread.

/// Bits of TRITONSERVER_ServerModelBatchProperties. FIRST_DIM: requests are batched along the
/// first dimension of every tensor. UNKNOWN: they are not, as far as the server can tell.
typedef enum tritonserver_batchflag_enum {
  TRITONSERVER_BATCH_UNKNOWN = 1,
  TRITONSERVER_BATCH_FIRST_DIM = 2
} TRITONSERVER_ModelBatchFlag;

/// Bits of TRITONSERVER_ServerModelIndex. READY: only models that are ready now.
typedef enum tritonserver_modelindexflag_enum {
  TRITONSERVER_INDEX_FLAG_READY = 1
} TRITONSERVER_ModelIndexFlag;

/// Bits of TRITONSERVER_ServerModelTransactionProperties. ONE_TO_ONE: one response for each
/// request. DECOUPLED: none, one or many.
typedef enum tritonserver_txn_property_flag_enum {
  TRITONSERVER_TXN_ONE_TO_ONE = 1,
  TRITONSERVER_TXN_DECOUPLED = 2
} TRITONSERVER_ModelTxnPropertyFlag;

/// Starts a server and its start-up models. Returns when they are loaded or have failed. The
/// options stay the caller's.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerNew(TRITONSERVER_Server **server, TRITONSERVER_ServerOptions *options);

/// Stops the server, as TRITONSERVER_ServerStop, and releases it. No other call may be under
/// way.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *TRITONSERVER_ServerDelete(TRITONSERVER_Server *server);

/// Takes no new requests, waits for those under way and unloads all models. UNAVAILABLE when
/// that takes longer than the exit timeout.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *TRITONSERVER_ServerStop(TRITONSERVER_Server *server);

/// Changes the seconds of TRITONSERVER_ServerStop.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerSetExitTimeout(TRITONSERVER_Server *server, unsigned int timeout);

/// Adds a repository while the server runs, with EXPLICIT control only (else UNSUPPORTED).
/// `name_mapping` has string parameters: the name is a directory's, the value the model's name.
/// ALREADY_EXISTS when the path or a model's name is taken.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerRegisterModelRepository(TRITONSERVER_Server *server, const char *repository_path,
                                           const TRITONSERVER_Parameter **name_mapping,
                                           uint32_t mapping_count);

/// Takes a repository away, with EXPLICIT control only (else UNSUPPORTED). Its loaded models
/// stay. INVALID_ARG when the path is not known.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerUnregisterModelRepository(TRITONSERVER_Server *server,
                                             const char *repository_path);

/// Looks for changes in the repositories now and follows them. With POLL control only, else
/// UNAVAILABLE.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerPollModelRepository(TRITONSERVER_Server *server);

/// Is the server able to answer at all?
TRITONSERVER_DECLSPEC TRITONSERVER_Error *TRITONSERVER_ServerIsLive(TRITONSERVER_Server *server,
                                                                    bool *live);

/// Are the server and, with strict readiness, all its models ready for requests?
TRITONSERVER_DECLSPEC TRITONSERVER_Error *TRITONSERVER_ServerIsReady(TRITONSERVER_Server *server,
                                                                     bool *ready);

/// Is this version of the model ready? -1 asks for the version that the model's policy would
/// choose.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerModelIsReady(TRITONSERVER_Server *server, const char *model_name,
                                int64_t model_version, bool *ready);

/// How the model batches. `*voidp` is reserved: NULL.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerModelBatchProperties(TRITONSERVER_Server *server, const char *model_name,
                                        int64_t model_version, uint32_t *flags, void **voidp);

/// How the model's responses relate to requests. `*voidp` is reserved: NULL; `voidp` itself may
/// be NULL.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerModelTransactionProperties(TRITONSERVER_Server *server, const char *model_name,
                                              int64_t model_version, uint32_t *txn_flags,
                                              void **voidp);

/// The server's metadata as KServe's GET v2 answers. The caller owns the message.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerMetadata(TRITONSERVER_Server *server, TRITONSERVER_Message **server_metadata);

/// The model's metadata as KServe's GET v2/models/NAME answers. The caller owns the message.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerModelMetadata(TRITONSERVER_Server *server, const char *model_name,
                                 int64_t model_version, TRITONSERVER_Message **model_metadata);

/// Statistics of one version, of all versions (-1) or of all models (`model_name` ""). The
/// caller owns the message.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerModelStatistics(TRITONSERVER_Server *server, const char *model_name,
                                   int64_t model_version, TRITONSERVER_Message **model_stats);

/// The model's configuration, completed. `config_version` must be 1. The caller owns the
/// message.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerModelConfig(TRITONSERVER_Server *server, const char *model_name,
                               int64_t model_version, uint32_t config_version,
                               TRITONSERVER_Message **model_config);

/// All models of the repositories with their versions, states and reasons. The caller owns the
/// message.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerModelIndex(TRITONSERVER_Server *server, uint32_t flags,
                              TRITONSERVER_Message **model_index);

/// Loads a model, or loads it again from the present content of its directory. Returns when it is
/// ready or has failed; requests to the former model are not disturbed. Needs EXPLICIT control,
/// else UNAVAILABLE.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *TRITONSERVER_ServerLoadModel(TRITONSERVER_Server *server,
                                                                       const char *model_name);

/// As TRITONSERVER_ServerLoadModel with parameters: "config" (string: JSON that replaces the
/// configuration), "file:PATH" (bytes: a file of the model; needs "config").
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerLoadModelWithParameters(TRITONSERVER_Server *server, const char *model_name,
                                           const TRITONSERVER_Parameter **parameters,
                                           uint64_t parameter_count);

/// Unloads a model; does not wait until it is done. A model that is not loaded is no error.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerUnloadModel(TRITONSERVER_Server *server, const char *model_name);

/// As TRITONSERVER_ServerUnloadModel, with the models that were loaded because this one needs
/// them.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerUnloadModelAndDependents(TRITONSERVER_Server *server, const char *model_name);

/// Takes a snapshot of the metrics. The caller owns it. UNSUPPORTED when metrics are off.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerMetrics(TRITONSERVER_Server *server, TRITONSERVER_Metrics **metrics);

/// Runs a request. On success the request is the server's until its release callback; on an
/// error it stays the caller's and no callback comes. `trace` (NULL for none) is the server's
/// in both cases.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_ServerInferAsync(TRITONSERVER_Server *server,
                              TRITONSERVER_InferenceRequest *inference_request,
                              TRITONSERVER_InferenceTrace *trace);

// --- Custom metrics: families and metrics of the program or of a backend, shown with the
// --- server's own. Any thread.

/// Kinds of metrics, with Prometheus' meaning.
typedef enum TRITONSERVER_metrickind_enum {
  TRITONSERVER_METRIC_KIND_COUNTER,
  TRITONSERVER_METRIC_KIND_GAUGE,
  TRITONSERVER_METRIC_KIND_HISTOGRAM
} TRITONSERVER_MetricKind;

/// Makes a family of metrics. A family of the same name and kind is shared, another kind is an
/// error. `name` must be a Prometheus metric name.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_MetricFamilyNew(TRITONSERVER_MetricFamily **family, TRITONSERVER_MetricKind kind,
                             const char *name, const char *description);

/// Releases a family. INTERNAL while it still has metrics, see TRITONSERVER_MetricDelete.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_MetricFamilyDelete(TRITONSERVER_MetricFamily *family);

/// The family's kind.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_GetMetricFamilyKind(TRITONSERVER_MetricFamily *family, TRITONSERVER_MetricKind *kind);

/// Makes empty arguments for TRITONSERVER_MetricNewWithArgs.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_MetricArgsNew(TRITONSERVER_MetricArgs **args);

/// Sets a histogram's upper bucket bounds, ascending, copied. The bucket +Inf is added.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_MetricArgsSetHistogram(TRITONSERVER_MetricArgs *args, const double *buckets,
                                    uint64_t buckets_count);

/// Releases arguments; metrics made with them stay valid.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_MetricArgsDelete(TRITONSERVER_MetricArgs *args);

/// Makes the metric of a family that has these labels, string parameters that are copied. The
/// same labels again give another handle on the same metric. INVALID_ARG for a histogram, which
/// needs arguments.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_MetricNew(TRITONSERVER_Metric **metric, TRITONSERVER_MetricFamily *family,
                       const TRITONSERVER_Parameter **labels, uint64_t label_count);

/// As TRITONSERVER_MetricNew, with arguments for kinds that need them; they may be deleted
/// afterwards.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONSERVER_MetricNewWithArgs(TRITONSERVER_Metric **metric, TRITONSERVER_MetricFamily *family,
                               const TRITONSERVER_Parameter **labels, uint64_t label_count,
                               const TRITONSERVER_MetricArgs *args);

/// Releases a metric, before its family.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *TRITONSERVER_MetricDelete(TRITONSERVER_Metric *metric);

/// The value of a counter or gauge; UNSUPPORTED for a histogram.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *TRITONSERVER_MetricValue(TRITONSERVER_Metric *metric,
                                                                   double *value);

/// Adds to a counter (INVALID_ARG when negative) or a gauge; UNSUPPORTED for a histogram.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *TRITONSERVER_MetricIncrement(TRITONSERVER_Metric *metric,
                                                                       double value);

/// Sets a gauge; UNSUPPORTED for other kinds.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *TRITONSERVER_MetricSet(TRITONSERVER_Metric *metric,
                                                                 double value);

/// Counts `value` in a histogram; UNSUPPORTED for other kinds.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *TRITONSERVER_MetricObserve(TRITONSERVER_Metric *metric,
                                                                     double value);

/// The kind of the metric's family.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *TRITONSERVER_GetMetricKind(TRITONSERVER_Metric *metric,
                                                                     TRITONSERVER_MetricKind *kind);

#ifdef __cplusplus
}
#endif
