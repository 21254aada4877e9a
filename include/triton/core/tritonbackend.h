// SPDX-License-Identifier: Apache-2.0
// The interface between the server and backends ("south seam"): what a libtriton_NAME.so
// implements and may call. Binary compatible with Triton Inference Server's backend API of the
// version below.
//
// The rules of tritonserver.h hold here too. In addition:
//  - Objects that an entry point receives are the server's; they are valid from the
//    ...Initialize to the ...Finalize.
//  - A backend handles the requests and responses of an instance on the thread of
//    TRITONBACKEND_ModelInstanceExecute; it must order work on its own threads itself.
//    Different instances run at the same time.
#pragma once

#include "triton/core/tritonserver.h"

#if defined(__GNUC__)
#define TRITONBACKEND_DECLSPEC __attribute__((visibility("default")))
#define TRITONBACKEND_ISPEC    __attribute__((visibility("default")))
#else
#define TRITONBACKEND_DECLSPEC
#define TRITONBACKEND_ISPEC
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define TRITONBACKEND_API_VERSION_MAJOR 1
#define TRITONBACKEND_API_VERSION_MINOR 19

typedef struct TRITONBACKEND_MemoryManager TRITONBACKEND_MemoryManager;
typedef struct TRITONBACKEND_Input TRITONBACKEND_Input;
typedef struct TRITONBACKEND_Output TRITONBACKEND_Output;
typedef struct TRITONBACKEND_State TRITONBACKEND_State;
typedef struct TRITONBACKEND_Request TRITONBACKEND_Request;
typedef struct TRITONBACKEND_ResponseFactory TRITONBACKEND_ResponseFactory;
typedef struct TRITONBACKEND_Response TRITONBACKEND_Response;
typedef struct TRITONBACKEND_Backend TRITONBACKEND_Backend;
typedef struct TRITONBACKEND_Model TRITONBACKEND_Model;
typedef struct TRITONBACKEND_ModelInstance TRITONBACKEND_ModelInstance;
typedef struct TRITONBACKEND_ModelInstanceResponseStatistics
    TRITONBACKEND_ModelInstanceResponseStatistics;
typedef struct TRITONBACKEND_BackendAttribute TRITONBACKEND_BackendAttribute;
typedef struct TRITONBACKEND_Batcher TRITONBACKEND_Batcher;

// --- API version

/// The version that the server implements. A backend checks it in TRITONBACKEND_Initialize: the
/// major must be equal, the minor not smaller than what it was built against.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ApiVersion(uint32_t *major,
                                                                    uint32_t *minor);

/// The meaning of a location. FILESYSTEM: the path of a directory.
typedef enum TRITONBACKEND_artifacttype_enum {
  TRITONBACKEND_ARTIFACT_FILESYSTEM
} TRITONBACKEND_ArtifactType;

// --- Memory from the server's pools. Any thread.

/// Allocates memory of exactly this type. UNSUPPORTED where the server has no such memory,
/// UNAVAILABLE where none is left; the backend may then ask for another type.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_MemoryManagerAllocate(TRITONBACKEND_MemoryManager *manager, void **buffer,
                                    TRITONSERVER_MemoryType memory_type, int64_t memory_type_id,
                                    uint64_t byte_size);

/// Gives memory back; type and id as it was allocated.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_MemoryManagerFree(TRITONBACKEND_MemoryManager *manager, void *buffer,
                                TRITONSERVER_MemoryType memory_type, int64_t memory_type_id);

// --- Inputs. They belong to their request and are valid until it is released.

/// The input's properties. Each returning pointer may be NULL. `*byte_size` is the size of all its
/// buffers together, `*buffer_count` their number; the first dimension of the shape is the batch
/// where the model batches.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_InputProperties(TRITONBACKEND_Input *input, const char **name,
                              TRITONSERVER_DataType *datatype, const int64_t **shape,
                              uint32_t *dims_count, uint64_t *byte_size, uint32_t *buffer_count);

/// As TRITONBACKEND_InputProperties, for the data given for `host_policy_name` where there is
/// any; NULL names no policy.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_InputPropertiesForHostPolicy(TRITONBACKEND_Input *input, const char *host_policy_name,
                                           const char **name, TRITONSERVER_DataType *datatype,
                                           const int64_t **shape, uint32_t *dims_count,
                                           uint64_t *byte_size, uint32_t *buffer_count);

/// Piece `index` of the input's data. `*memory_type` and `*memory_type_id` are the backend's
/// wish on entry and the truth on return. The bytes must not be changed. INVALID_ARG when
/// `index` is out of range.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_InputBuffer(TRITONBACKEND_Input *input, uint32_t index, const void **buffer,
                          uint64_t *buffer_byte_size, TRITONSERVER_MemoryType *memory_type,
                          int64_t *memory_type_id);

/// As TRITONBACKEND_InputBuffer, for the data given for `host_policy_name` where there is any.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_InputBufferForHostPolicy(
    TRITONBACKEND_Input *input, const char *host_policy_name, uint32_t index, const void **buffer,
    uint64_t *buffer_byte_size, TRITONSERVER_MemoryType *memory_type, int64_t *memory_type_id);

/// Piece `index` of the input's data with its attributes, both borrowed from the input.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_InputBufferAttributes(TRITONBACKEND_Input *input, uint32_t index, const void **buffer,
                                    TRITONSERVER_BufferAttributes **buffer_attributes);

// --- Outputs. They belong to their response and are valid until it is sent or deleted.

/// Allocates the output's buffer. `*memory_type` and `*memory_type_id` are the wish on entry
/// and the truth on return: the backend must write to what it got. ALREADY_EXISTS when the
/// output has a buffer.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_OutputBuffer(TRITONBACKEND_Output *output, void **buffer, uint64_t buffer_byte_size,
                           TRITONSERVER_MemoryType *memory_type, int64_t *memory_type_id);

/// The attributes of the buffer from TRITONBACKEND_OutputBuffer, borrowed from the output.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_OutputBufferAttributes(TRITONBACKEND_Output *output,
                                     TRITONSERVER_BufferAttributes **buffer_attributes);

// --- Requests. The backend owns those that TRITONBACKEND_ModelInstanceExecute hands to it
// --- until it releases them.

/// The request's id, "" for none; borrowed.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_RequestId(TRITONBACKEND_Request *request,
                                                                   const char **id);

/// Did the client cancel? A slow backend should ask from time to time, and then end the request
/// with a CANCELLED error.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_RequestIsCancelled(TRITONBACKEND_Request *request, bool *is_cancelled);

/// As TRITONBACKEND_RequestIsCancelled, after the request was released.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ResponseFactoryIsCancelled(TRITONBACKEND_ResponseFactory *factory,
                                         bool *is_cancelled);

/// The sequence's id as a number, 0 outside a sequence. INVALID_ARG when it is a string.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_RequestCorrelationId(TRITONBACKEND_Request *request, uint64_t *id);

/// The timeout that the client set, 0 for none.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_InferenceRequestTimeoutMicroseconds(TRITONBACKEND_Request *request,
                                                  uint64_t *timeout);

/// The sequence's id as a string; borrowed. INVALID_ARG when it is a number.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_RequestCorrelationIdString(TRITONBACKEND_Request *request, const char **id);

/// The TRITONSERVER_RequestFlag bits.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_RequestFlags(TRITONBACKEND_Request *request, uint32_t *flags);

/// How many parameters the client sent.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_RequestParameterCount(TRITONBACKEND_Request *request, uint32_t *count);

/// Parameter `index`; key and value are borrowed. What `*vvalue` points to depends on the type,
/// see TRITONSERVER_ParameterType. INVALID_ARG when `index` is out of range.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_RequestParameter(TRITONBACKEND_Request *request, uint32_t index, const char **key,
                               TRITONSERVER_ParameterType *type, const void **vvalue);

/// How many inputs the request has.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_RequestInputCount(TRITONBACKEND_Request *request, uint32_t *count);

/// Name of input `index`; borrowed. INVALID_ARG when `index` is out of range.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_RequestInputName(TRITONBACKEND_Request *request, uint32_t index,
                               const char **input_name);

/// The input called `name`. INVALID_ARG when there is none.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_RequestInput(TRITONBACKEND_Request *request, const char *name,
                           TRITONBACKEND_Input **input);

/// Input `index`. Its position says nothing: use names to tell inputs apart. INVALID_ARG when
/// `index` is out of range.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_RequestInputByIndex(TRITONBACKEND_Request *request, uint32_t index,
                                  TRITONBACKEND_Input **input);

/// How many outputs the client wants; all of the model's when it named none.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_RequestOutputCount(TRITONBACKEND_Request *request, uint32_t *count);

/// Name of wanted output `index`; borrowed. INVALID_ARG when `index` is out of range.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_RequestOutputName(TRITONBACKEND_Request *request, uint32_t index,
                                const char **output_name);

/// Where the buffer of output `name` will be when it is allocated: asks the client's query
/// function. The memory arguments are the wish on entry and the answer on return. `name` and
/// `byte_size` may be NULL when not known. UNAVAILABLE when the client has no such function.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_RequestOutputBufferProperties(TRITONBACKEND_Request *request, const char *name,
                                            size_t *byte_size, TRITONSERVER_MemoryType *memory_type,
                                            int64_t *memory_type_id);

/// Gives the request back with TRITONSERVER_RequestReleaseFlag bits; the backend must not touch
/// it again. May happen before the last response is sent. After RESCHEDULE the server runs the
/// request again.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_RequestRelease(TRITONBACKEND_Request *request, uint32_t release_flags);

/// The request's trace, borrowed; NULL when it is not traced.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_RequestTrace(TRITONBACKEND_Request *request, TRITONSERVER_InferenceTrace **trace);

// --- Response factories: make responses after, or on other threads than, the request

/// Makes a factory for the request's responses. The backend owns it and may use it after the
/// request's release.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ResponseFactoryNew(TRITONBACKEND_ResponseFactory **factory,
                                 TRITONBACKEND_Request *request);

/// Releases a factory; its responses stay valid.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ResponseFactoryDelete(TRITONBACKEND_ResponseFactory *factory);

/// Sends flags without a response, above all FINAL when the last response was already sent.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ResponseFactorySendFlags(TRITONBACKEND_ResponseFactory *factory, uint32_t send_flags);

// --- Responses

/// Makes an empty response to a request that is not released yet.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ResponseNew(TRITONBACKEND_Response **response, TRITONBACKEND_Request *request);

/// Makes an empty response from a factory.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ResponseNewFromFactory(TRITONBACKEND_Response **response,
                                     TRITONBACKEND_ResponseFactory *factory);

/// Drops a response that was not sent.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ResponseDelete(TRITONBACKEND_Response *response);

/// Adds a parameter for the client; name and value are copied.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ResponseSetStringParameter(TRITONBACKEND_Response *response, const char *name,
                                         const char *value);

/// As TRITONBACKEND_ResponseSetStringParameter, with an integer.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ResponseSetIntParameter(TRITONBACKEND_Response *response, const char *name,
                                      int64_t value);

/// As TRITONBACKEND_ResponseSetStringParameter, with a bool.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ResponseSetBoolParameter(TRITONBACKEND_Response *response, const char *name,
                                       bool value);

/// As TRITONBACKEND_ResponseSetStringParameter, with a double.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ResponseSetDoubleParameter(TRITONBACKEND_Response *response, const char *name,
                                         double value);

/// Adds an output tensor and lends it. The shape includes the batch where the model batches.
/// The data is allocated with TRITONBACKEND_OutputBuffer.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ResponseOutput(TRITONBACKEND_Response *response, TRITONBACKEND_Output **output,
                             const char *name, TRITONSERVER_DataType datatype, const int64_t *shape,
                             uint32_t dims_count);

/// Sends the response, which is the server's from here on, whatever is returned. A non-NULL
/// `error` makes it an error response; the error stays the caller's.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ResponseSend(TRITONBACKEND_Response *response, uint32_t send_flags,
                           TRITONSERVER_Error *error);

// --- Implicit state of a sequence

/// Makes the new value of state `name` for the request's sequence and lends it. INVALID_ARG
/// when the model's configuration has no such state.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_StateNew(TRITONBACKEND_State **state, TRITONBACKEND_Request *request,
                       const char *name, TRITONSERVER_DataType datatype, const int64_t *shape,
                       uint32_t dims_count);

/// Makes the new value the one that the sequence's next request sees. Called once, when the
/// buffer is complete.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_StateUpdate(TRITONBACKEND_State *state);

/// The buffer for the new value. The memory arguments are the wish on entry and the truth on
/// return.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_StateBuffer(TRITONBACKEND_State *state, void **buffer, uint64_t buffer_byte_size,
                          TRITONSERVER_MemoryType *memory_type, int64_t *memory_type_id);

/// The attributes of the buffer from TRITONBACKEND_StateBuffer, borrowed.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_StateBufferAttributes(TRITONBACKEND_State *state,
                                    TRITONSERVER_BufferAttributes **buffer_attributes);

// --- Backends: one object per loaded library

/// When the server calls TRITONBACKEND_ModelInstanceExecute. BLOCKING: each instance has a
/// thread of its own, the call returns when the instance is free again. DEVICE_BLOCKING:
/// instances of one device share a thread, calls to them do not overlap.
typedef enum TRITONBACKEND_execpolicy_enum {
  TRITONBACKEND_EXECUTION_BLOCKING,
  TRITONBACKEND_EXECUTION_DEVICE_BLOCKING
} TRITONBACKEND_ExecutionPolicy;

/// The backend's name; borrowed.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_BackendName(TRITONBACKEND_Backend *backend,
                                                                     const char **name);

/// The settings given to the backend at start, as JSON: {"cmdline": {"setting": "value"}}. The
/// message is borrowed.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_BackendConfig(TRITONBACKEND_Backend *backend, TRITONSERVER_Message **backend_config);

/// The policy in force, BLOCKING unless set.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_BackendExecutionPolicy(TRITONBACKEND_Backend *backend,
                                     TRITONBACKEND_ExecutionPolicy *policy);

/// Chooses the policy; in TRITONBACKEND_Initialize only.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_BackendSetExecutionPolicy(TRITONBACKEND_Backend *backend,
                                        TRITONBACKEND_ExecutionPolicy policy);

/// The directory that the backend's library came from; borrowed.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_BackendArtifacts(TRITONBACKEND_Backend *backend,
                               TRITONBACKEND_ArtifactType *artifact_type, const char **location);

/// The server's memory pools; borrowed, valid as long as the backend.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_BackendMemoryManager(TRITONBACKEND_Backend *backend,
                                   TRITONBACKEND_MemoryManager **manager);

/// The pointer that TRITONBACKEND_BackendSetState stored, NULL before.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_BackendState(TRITONBACKEND_Backend *backend, void **state);

/// Stores a pointer of the backend's own, which it frees in TRITONBACKEND_Finalize.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_BackendSetState(TRITONBACKEND_Backend *backend, void *state);

// --- Models: one object per loaded version of a model

/// The model's name; borrowed.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelName(TRITONBACKEND_Model *model,
                                                                   const char **name);

/// The model's version.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelVersion(TRITONBACKEND_Model *model,
                                                                      uint64_t *version);

/// The model's directory (the one that holds config.pbtxt and the versions); borrowed. It may be a
/// copy of the directory in the repository.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ModelRepository(TRITONBACKEND_Model *model, TRITONBACKEND_ArtifactType *artifact_type,
                              const char **location);

/// The model's configuration as JSON; `config_version` must be 1. The caller owns the message.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ModelConfig(TRITONBACKEND_Model *model, uint32_t config_version,
                          TRITONSERVER_Message **model_config);

/// Should the backend complete the configuration?
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ModelAutoCompleteConfig(TRITONBACKEND_Model *model, bool *auto_complete_config);

/// Replaces the configuration by a completed one; in TRITONBACKEND_ModelInitialize only. The
/// server takes max_batch_size, inputs, outputs, transaction policy, batching and instance
/// groups from it. The message stays the caller's.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ModelSetConfig(TRITONBACKEND_Model *model, uint32_t config_version,
                             TRITONSERVER_Message *model_config);

/// The server; borrowed. Lets a backend ask other models.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelServer(TRITONBACKEND_Model *model,
                                                                     TRITONSERVER_Server **server);

/// The model's backend; borrowed.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ModelBackend(TRITONBACKEND_Model *model, TRITONBACKEND_Backend **backend);

/// The pointer that TRITONBACKEND_ModelSetState stored, NULL before.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelState(TRITONBACKEND_Model *model,
                                                                    void **state);

/// Stores a pointer of the backend's own, which it frees in TRITONBACKEND_ModelFinalize.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelSetState(TRITONBACKEND_Model *model,
                                                                       void *state);

/// Reports how much memory the model uses, one entry per place; an earlier report is replaced.
/// The attributes stay the caller's.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ModelReportMemoryUsage(TRITONBACKEND_Model *model,
                                     TRITONSERVER_BufferAttributes **usage, uint32_t usage_size);

// --- Model instances

/// The instance's name; borrowed.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ModelInstanceName(TRITONBACKEND_ModelInstance *instance, const char **name);

/// The kind of hardware that the instance runs on.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ModelInstanceKind(TRITONBACKEND_ModelInstance *instance,
                                TRITONSERVER_InstanceGroupKind *kind);

/// The GPU of an instance of kind GPU, else 0.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ModelInstanceDeviceId(TRITONBACKEND_ModelInstance *instance, int32_t *device_id);

/// The host policy as JSON: {"NAME": {"setting": "value"}}. The message is borrowed.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ModelInstanceHostPolicy(TRITONBACKEND_ModelInstance *instance,
                                      TRITONSERVER_Message **host_policy);

/// Is the instance passive, without requests from the scheduler?
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ModelInstanceIsPassive(TRITONBACKEND_ModelInstance *instance, bool *is_passive);

/// How many optimisation profiles the instance group names.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ModelInstanceProfileCount(TRITONBACKEND_ModelInstance *instance, uint32_t *count);

/// Profile `index`; borrowed. INVALID_ARG when `index` is out of range.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ModelInstanceProfileName(TRITONBACKEND_ModelInstance *instance, uint32_t index,
                                       const char **profile_name);

/// How many further devices the instance group names.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ModelInstanceSecondaryDeviceCount(TRITONBACKEND_ModelInstance *instance,
                                                uint32_t *count);

/// Kind (a text such as "KIND_NVDLA", borrowed) and id of further device `index`. INVALID_ARG
/// when `index` is out of range.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelInstanceSecondaryDeviceProperties(
    TRITONBACKEND_ModelInstance *instance, uint32_t index, const char **kind, int64_t *id);

/// The instance's model; borrowed.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ModelInstanceModel(TRITONBACKEND_ModelInstance *instance,
                                 TRITONBACKEND_Model **model);

/// The pointer that TRITONBACKEND_ModelInstanceSetState stored, NULL before.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ModelInstanceState(TRITONBACKEND_ModelInstance *instance, void **state);

/// Stores a pointer of the backend's own, which it frees in
/// TRITONBACKEND_ModelInstanceFinalize.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ModelInstanceSetState(TRITONBACKEND_ModelInstance *instance, void *state);

/// As TRITONBACKEND_ModelReportMemoryUsage, for what the instance uses beside its model.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ModelInstanceReportMemoryUsage(TRITONBACKEND_ModelInstance *instance,
                                             TRITONSERVER_BufferAttributes **usage,
                                             uint32_t usage_size);

// --- Statistics. All moments are nanoseconds of the monotonic clock, in ascending order.

/// Reports how one request fared, before it is released. The time until `compute_start_ns`
/// counts as input, from `compute_end_ns` on as output, between them as compute.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ModelInstanceReportStatistics(TRITONBACKEND_ModelInstance *instance,
                                            TRITONBACKEND_Request *request, bool success,
                                            uint64_t exec_start_ns, uint64_t compute_start_ns,
                                            uint64_t compute_end_ns, uint64_t exec_end_ns);

/// Makes an empty record of one response of a decoupled model. The backend owns it and may use
/// it again for the next response.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelInstanceResponseStatisticsNew(
    TRITONBACKEND_ModelInstanceResponseStatistics **response_statistics);

/// Releases a record.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelInstanceResponseStatisticsDelete(
    TRITONBACKEND_ModelInstanceResponseStatistics *response_statistics);

/// Which instance made the response; needed.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ModelInstanceResponseStatisticsSetModelInstance(
    TRITONBACKEND_ModelInstanceResponseStatistics *response_statistics,
    TRITONBACKEND_ModelInstance *model_instance);

/// The factory that the response came from; needed.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseFactory(
    TRITONBACKEND_ModelInstanceResponseStatistics *response_statistics,
    TRITONBACKEND_ResponseFactory *response_factory);

/// When work on the response began; needed.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseStart(
    TRITONBACKEND_ModelInstanceResponseStatistics *response_statistics, uint64_t response_start);

/// When the result was there and its output began; leave it out for an empty response.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ModelInstanceResponseStatisticsSetComputeOutputStart(
    TRITONBACKEND_ModelInstanceResponseStatistics *response_statistics,
    uint64_t compute_output_start);

/// When the response was complete; needed.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseEnd(
    TRITONBACKEND_ModelInstanceResponseStatistics *response_statistics, uint64_t response_end);

/// The error that the response carries, NULL for success. Borrowed until the record is
/// reported.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelInstanceResponseStatisticsSetError(
    TRITONBACKEND_ModelInstanceResponseStatistics *response_statistics, TRITONSERVER_Error *error);

/// Counts the record, whose needed parts must be set; it stays the backend's.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReportResponseStatistics(
    TRITONBACKEND_ModelInstanceResponseStatistics *response_statistics);

/// Reports one execution: the sum of the requests' batch sizes and the moments as in
/// TRITONBACKEND_ModelInstanceReportStatistics.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReportBatchStatistics(
    TRITONBACKEND_ModelInstance *instance, uint64_t batch_size, uint64_t exec_start_ns,
    uint64_t compute_start_ns, uint64_t compute_end_ns, uint64_t exec_end_ns);

// --- Entry points: a backend's library defines these, the server calls them. Only
// --- TRITONBACKEND_ModelInstanceExecute is required. Pointers given to ...SetState stay the
// backend's.

/// Called once after the library is loaded, before anything else. An error refuses the backend
/// and every model that needs it.
TRITONBACKEND_ISPEC TRITONSERVER_Error *TRITONBACKEND_Initialize(TRITONBACKEND_Backend *backend);

/// Called once, after the last model is gone, before the library is unloaded.
TRITONBACKEND_ISPEC TRITONSERVER_Error *TRITONBACKEND_Finalize(TRITONBACKEND_Backend *backend);

/// Called for each version of a model that is being loaded. Different models may be initialised
/// at the same time. An error fails the load.
TRITONBACKEND_ISPEC TRITONSERVER_Error *TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model *model);

/// Called when all instances of the model are gone.
TRITONBACKEND_ISPEC TRITONSERVER_Error *TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model *model);

/// Called for each instance of a model. Instances of one model are initialised one after the
/// other, unless the backend allows it in parallel
/// (TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading). An error fails the load.
TRITONBACKEND_ISPEC TRITONSERVER_Error *
TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance *instance);

/// Called when the instance gets no more requests and has none left.
TRITONBACKEND_ISPEC TRITONSERVER_Error *
TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance *instance);

/// Runs a batch. NULL means that the backend now owns all requests and will send their
/// responses and release each of them, also when they fail. On an error they stay the server's,
/// which answers them all with it. The array is valid during the call only. Not called again
/// for this instance until it returned.
TRITONBACKEND_ISPEC TRITONSERVER_Error *
TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *instance,
                                   TRITONBACKEND_Request **requests, uint32_t request_count);

/// Tells whether the instance could serve now; an error is the reason why not. May be called
/// while the instance executes.
TRITONBACKEND_ISPEC TRITONSERVER_Error *
TRITONBACKEND_ModelInstanceReady(TRITONBACKEND_ModelInstance *instance);

/// Called after TRITONBACKEND_Initialize to ask for the backend's preferences, which it sets on
/// `backend_attributes`.
TRITONBACKEND_ISPEC TRITONSERVER_Error *
TRITONBACKEND_GetBackendAttribute(TRITONBACKEND_Backend *backend,
                                  TRITONBACKEND_BackendAttribute *backend_attributes);

// --- Backend attributes: valid during TRITONBACKEND_GetBackendAttribute

/// Adds an instance group for models whose configuration has none; the first that the machine
/// can serve is taken. `count` 0 is the default for the kind; `device_ids` may be NULL with
/// `id_count` 0.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(
    TRITONBACKEND_BackendAttribute *backend_attributes, TRITONSERVER_InstanceGroupKind kind,
    uint64_t count, const uint64_t *device_ids, uint64_t id_count);

/// Allows the instances of a model to be initialised at the same time.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading(
    TRITONBACKEND_BackendAttribute *backend_attributes, bool enabled);

// --- Entry points of a custom batching strategy: a library defines all of them or none. Called
// --- with the model's queue locked: they must be quick.

/// Called once for a model that uses the strategy; stores what it needs in `*batcher`.
TRITONBACKEND_ISPEC TRITONSERVER_Error *
TRITONBACKEND_ModelBatcherInitialize(TRITONBACKEND_Batcher **batcher, TRITONBACKEND_Model *model);

/// Called when the model is unloaded.
TRITONBACKEND_ISPEC TRITONSERVER_Error *
TRITONBACKEND_ModelBatcherFinalize(TRITONBACKEND_Batcher *batcher);

/// May `request` join the batch? If not, the batch closes. `userp` is the batch's state.
TRITONBACKEND_ISPEC TRITONSERVER_Error *
TRITONBACKEND_ModelBatchIncludeRequest(TRITONBACKEND_Request *request, void *userp,
                                       bool *should_include);

/// Called when a new batch begins; stores the batch's state in `*userp`.
TRITONBACKEND_ISPEC TRITONSERVER_Error *
TRITONBACKEND_ModelBatchInitialize(const TRITONBACKEND_Batcher *batcher, void **userp);

/// Called when a batch is closed.
TRITONBACKEND_ISPEC TRITONSERVER_Error *TRITONBACKEND_ModelBatchFinalize(void *userp);

// --- Outputs of a response that is being made (implemented by the server)

/// Data type and shape of the response's output `name`, borrowed. NOT_FOUND when it has none of
/// that name.
TRITONBACKEND_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_InferenceResponseOutputByName(TRITONBACKEND_Response *response, const char *name,
                                            TRITONSERVER_DataType *datatype, const int64_t **shape,
                                            uint64_t *dim_count);

/// Name, data type and shape of output `index`, borrowed. INVALID_ARG when `index` is out of
/// range.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
TRITONBACKEND_InferenceResponseOutput(TRITONBACKEND_Response *response, uint32_t index,
                                      const char **name, TRITONSERVER_DataType *datatype,
                                      const int64_t **shape, uint64_t *dim_count);

#ifdef __cplusplus
}
#endif
