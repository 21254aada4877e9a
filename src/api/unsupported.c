// Exported functions that are not implemented yet: each returns UNSUPPORTED with its own name, so
// that a program or plug-in that needs one is told which. Whoever implements a function deletes its
// line here; docs/abi.md is made from what is left (tests/abi/abi.py). The definitions are weak
// only so that a tree in which both exist still links.
#include "api/convert.h"
#include "triton/core/tritonbackend.h"
#include "triton/core/tritoncache.h"
#include "triton/core/tritonrepoagent.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define UNSUPPORTED(name, ...)                                                                     \
  __attribute__((weak)) TRITONSERVER_Error *name(__VA_ARGS__)                                      \
  {                                                                                                \
    return error_to_abi(error_new(ERROR_UNSUPPORTED, "%s is not supported yet", #name));           \
  }

// clang-format off: one line a function, so that deleting one is deleting one line
// tritonserver.h
UNSUPPORTED(TRITONSERVER_MetricsDelete, TRITONSERVER_Metrics *metrics)
UNSUPPORTED(TRITONSERVER_MetricsFormatted, TRITONSERVER_Metrics *metrics,
            TRITONSERVER_MetricFormat format, const char **base, size_t *byte_size)
UNSUPPORTED(TRITONSERVER_InferenceTraceNew, TRITONSERVER_InferenceTrace **trace,
            TRITONSERVER_InferenceTraceLevel level, uint64_t parent_id,
            TRITONSERVER_InferenceTraceActivityFn_t activity_fn,
            TRITONSERVER_InferenceTraceReleaseFn_t release_fn, void *trace_userp)
UNSUPPORTED(TRITONSERVER_InferenceTraceTensorNew, TRITONSERVER_InferenceTrace **trace,
            TRITONSERVER_InferenceTraceLevel level, uint64_t parent_id,
            TRITONSERVER_InferenceTraceActivityFn_t activity_fn,
            TRITONSERVER_InferenceTraceTensorActivityFn_t tensor_activity_fn,
            TRITONSERVER_InferenceTraceReleaseFn_t release_fn, void *trace_userp)
UNSUPPORTED(TRITONSERVER_InferenceTraceReportActivity, TRITONSERVER_InferenceTrace *trace,
            uint64_t timestamp, const char *activity_name)
UNSUPPORTED(TRITONSERVER_InferenceTraceDelete, TRITONSERVER_InferenceTrace *trace)
UNSUPPORTED(TRITONSERVER_InferenceTraceId, TRITONSERVER_InferenceTrace *trace, uint64_t *id)
UNSUPPORTED(TRITONSERVER_InferenceTraceParentId, TRITONSERVER_InferenceTrace *trace,
            uint64_t *parent_id)
UNSUPPORTED(TRITONSERVER_InferenceTraceModelName, TRITONSERVER_InferenceTrace *trace,
            const char **model_name)
UNSUPPORTED(TRITONSERVER_InferenceTraceModelVersion, TRITONSERVER_InferenceTrace *trace,
            int64_t *model_version)
UNSUPPORTED(TRITONSERVER_InferenceTraceRequestId, TRITONSERVER_InferenceTrace *trace,
            const char **request_id)
UNSUPPORTED(TRITONSERVER_InferenceTraceSpawnChildTrace, TRITONSERVER_InferenceTrace *trace,
            TRITONSERVER_InferenceTrace **child_trace)
UNSUPPORTED(TRITONSERVER_InferenceTraceSetContext, TRITONSERVER_InferenceTrace *trace,
            const char *trace_context)
UNSUPPORTED(TRITONSERVER_InferenceTraceContext, TRITONSERVER_InferenceTrace *trace,
            const char **trace_context)
UNSUPPORTED(TRITONSERVER_InferenceRequestNew, TRITONSERVER_InferenceRequest **inference_request,
            TRITONSERVER_Server *server, const char *model_name, int64_t model_version)
UNSUPPORTED(TRITONSERVER_InferenceRequestDelete, TRITONSERVER_InferenceRequest *inference_request)
UNSUPPORTED(TRITONSERVER_InferenceRequestId, TRITONSERVER_InferenceRequest *inference_request,
            const char **id)
UNSUPPORTED(TRITONSERVER_InferenceRequestSetId, TRITONSERVER_InferenceRequest *inference_request,
            const char *id)
UNSUPPORTED(TRITONSERVER_InferenceRequestFlags, TRITONSERVER_InferenceRequest *inference_request,
            uint32_t *flags)
UNSUPPORTED(TRITONSERVER_InferenceRequestSetFlags, TRITONSERVER_InferenceRequest *inference_request,
            uint32_t flags)
UNSUPPORTED(TRITONSERVER_InferenceRequestCorrelationId,
            TRITONSERVER_InferenceRequest *inference_request, uint64_t *correlation_id)
UNSUPPORTED(TRITONSERVER_InferenceRequestCorrelationIdString,
            TRITONSERVER_InferenceRequest *inference_request, const char **correlation_id)
UNSUPPORTED(TRITONSERVER_InferenceRequestSetCorrelationId,
            TRITONSERVER_InferenceRequest *inference_request, uint64_t correlation_id)
UNSUPPORTED(TRITONSERVER_InferenceRequestSetCorrelationIdString,
            TRITONSERVER_InferenceRequest *inference_request, const char *correlation_id)
UNSUPPORTED(TRITONSERVER_InferenceRequestCancel, TRITONSERVER_InferenceRequest *inference_request)
UNSUPPORTED(TRITONSERVER_InferenceRequestIsCancelled,
            TRITONSERVER_InferenceRequest *inference_request, bool *is_cancelled)
UNSUPPORTED(TRITONSERVER_InferenceRequestPriority, TRITONSERVER_InferenceRequest *inference_request,
            uint32_t *priority)
UNSUPPORTED(TRITONSERVER_InferenceRequestPriorityUInt64,
            TRITONSERVER_InferenceRequest *inference_request, uint64_t *priority)
UNSUPPORTED(TRITONSERVER_InferenceRequestSetPriority,
            TRITONSERVER_InferenceRequest *inference_request, uint32_t priority)
UNSUPPORTED(TRITONSERVER_InferenceRequestSetPriorityUInt64,
            TRITONSERVER_InferenceRequest *inference_request, uint64_t priority)
UNSUPPORTED(TRITONSERVER_InferenceRequestTimeoutMicroseconds,
            TRITONSERVER_InferenceRequest *inference_request, uint64_t *timeout_us)
UNSUPPORTED(TRITONSERVER_InferenceRequestSetTimeoutMicroseconds,
            TRITONSERVER_InferenceRequest *inference_request, uint64_t timeout_us)
UNSUPPORTED(TRITONSERVER_InferenceRequestAddInput, TRITONSERVER_InferenceRequest *inference_request,
            const char *name, TRITONSERVER_DataType datatype, const int64_t *shape,
            uint64_t dim_count)
UNSUPPORTED(TRITONSERVER_InferenceRequestAddRawInput,
            TRITONSERVER_InferenceRequest *inference_request, const char *name)
UNSUPPORTED(TRITONSERVER_InferenceRequestRemoveInput,
            TRITONSERVER_InferenceRequest *inference_request, const char *name)
UNSUPPORTED(TRITONSERVER_InferenceRequestRemoveAllInputs,
            TRITONSERVER_InferenceRequest *inference_request)
UNSUPPORTED(TRITONSERVER_InferenceRequestAppendInputData,
            TRITONSERVER_InferenceRequest *inference_request, const char *name, const void *base,
            size_t byte_size, TRITONSERVER_MemoryType memory_type, int64_t memory_type_id)
UNSUPPORTED(TRITONSERVER_InferenceRequestAppendInputDataWithHostPolicy,
            TRITONSERVER_InferenceRequest *inference_request, const char *name, const void *base,
            size_t byte_size, TRITONSERVER_MemoryType memory_type, int64_t memory_type_id,
            const char *host_policy_name)
UNSUPPORTED(TRITONSERVER_InferenceRequestAppendInputDataWithBufferAttributes,
            TRITONSERVER_InferenceRequest *inference_request, const char *name, const void *base,
            TRITONSERVER_BufferAttributes *buffer_attributes)
UNSUPPORTED(TRITONSERVER_InferenceRequestRemoveAllInputData,
            TRITONSERVER_InferenceRequest *inference_request, const char *name)
UNSUPPORTED(TRITONSERVER_InferenceRequestAddRequestedOutput,
            TRITONSERVER_InferenceRequest *inference_request, const char *name)
UNSUPPORTED(TRITONSERVER_InferenceRequestRemoveRequestedOutput,
            TRITONSERVER_InferenceRequest *inference_request, const char *name)
UNSUPPORTED(TRITONSERVER_InferenceRequestRemoveAllRequestedOutputs,
            TRITONSERVER_InferenceRequest *inference_request)
UNSUPPORTED(TRITONSERVER_InferenceRequestSetReleaseCallback,
            TRITONSERVER_InferenceRequest *inference_request,
            TRITONSERVER_InferenceRequestReleaseFn_t request_release_fn,
            void *request_release_userp)
UNSUPPORTED(TRITONSERVER_InferenceRequestSetResponseCallback,
            TRITONSERVER_InferenceRequest *inference_request,
            TRITONSERVER_ResponseAllocator *response_allocator, void *response_allocator_userp,
            TRITONSERVER_InferenceResponseCompleteFn_t response_fn, void *response_userp)
UNSUPPORTED(TRITONSERVER_InferenceRequestSetStringParameter, TRITONSERVER_InferenceRequest *request,
            const char *key, const char *value)
UNSUPPORTED(TRITONSERVER_InferenceRequestSetIntParameter, TRITONSERVER_InferenceRequest *request,
            const char *key, int64_t value)
UNSUPPORTED(TRITONSERVER_InferenceRequestSetBoolParameter, TRITONSERVER_InferenceRequest *request,
            const char *key, bool value)
UNSUPPORTED(TRITONSERVER_InferenceRequestSetDoubleParameter, TRITONSERVER_InferenceRequest *request,
            const char *key, double value)
UNSUPPORTED(TRITONSERVER_InferenceResponseDelete,
            TRITONSERVER_InferenceResponse *inference_response)
UNSUPPORTED(TRITONSERVER_InferenceResponseError, TRITONSERVER_InferenceResponse *inference_response)
UNSUPPORTED(TRITONSERVER_InferenceResponseModel, TRITONSERVER_InferenceResponse *inference_response,
            const char **model_name, int64_t *model_version)
UNSUPPORTED(TRITONSERVER_InferenceResponseId, TRITONSERVER_InferenceResponse *inference_response,
            const char **request_id)
UNSUPPORTED(TRITONSERVER_InferenceResponseParameterCount,
            TRITONSERVER_InferenceResponse *inference_response, uint32_t *count)
UNSUPPORTED(TRITONSERVER_InferenceResponseParameter,
            TRITONSERVER_InferenceResponse *inference_response, uint32_t index, const char **name,
            TRITONSERVER_ParameterType *type, const void **vvalue)
UNSUPPORTED(TRITONSERVER_InferenceResponseOutputCount,
            TRITONSERVER_InferenceResponse *inference_response, uint32_t *count)
UNSUPPORTED(TRITONSERVER_InferenceResponseOutput,
            TRITONSERVER_InferenceResponse *inference_response, uint32_t index, const char **name,
            TRITONSERVER_DataType *datatype, const int64_t **shape, uint64_t *dim_count,
            const void **base, size_t *byte_size, TRITONSERVER_MemoryType *memory_type,
            int64_t *memory_type_id, void **userp)
UNSUPPORTED(TRITONSERVER_InferenceResponseOutputClassificationLabel,
            TRITONSERVER_InferenceResponse *inference_response, uint32_t index, size_t class_index,
            const char **label)
UNSUPPORTED(TRITONSERVER_ServerNew, TRITONSERVER_Server **server,
            TRITONSERVER_ServerOptions *options)
UNSUPPORTED(TRITONSERVER_ServerDelete, TRITONSERVER_Server *server)
UNSUPPORTED(TRITONSERVER_ServerStop, TRITONSERVER_Server *server)
UNSUPPORTED(TRITONSERVER_ServerSetExitTimeout, TRITONSERVER_Server *server, unsigned int timeout)
UNSUPPORTED(TRITONSERVER_ServerRegisterModelRepository, TRITONSERVER_Server *server,
            const char *repository_path, const TRITONSERVER_Parameter **name_mapping,
            uint32_t mapping_count)
UNSUPPORTED(TRITONSERVER_ServerUnregisterModelRepository, TRITONSERVER_Server *server,
            const char *repository_path)
UNSUPPORTED(TRITONSERVER_ServerPollModelRepository, TRITONSERVER_Server *server)
UNSUPPORTED(TRITONSERVER_ServerIsLive, TRITONSERVER_Server *server, bool *live)
UNSUPPORTED(TRITONSERVER_ServerIsReady, TRITONSERVER_Server *server, bool *ready)
UNSUPPORTED(TRITONSERVER_ServerModelIsReady, TRITONSERVER_Server *server, const char *model_name,
            int64_t model_version, bool *ready)
UNSUPPORTED(TRITONSERVER_ServerModelBatchProperties, TRITONSERVER_Server *server,
            const char *model_name, int64_t model_version, uint32_t *flags, void **voidp)
UNSUPPORTED(TRITONSERVER_ServerModelTransactionProperties, TRITONSERVER_Server *server,
            const char *model_name, int64_t model_version, uint32_t *txn_flags, void **voidp)
UNSUPPORTED(TRITONSERVER_ServerMetadata, TRITONSERVER_Server *server,
            TRITONSERVER_Message **server_metadata)
UNSUPPORTED(TRITONSERVER_ServerModelMetadata, TRITONSERVER_Server *server, const char *model_name,
            int64_t model_version, TRITONSERVER_Message **model_metadata)
UNSUPPORTED(TRITONSERVER_ServerModelStatistics, TRITONSERVER_Server *server, const char *model_name,
            int64_t model_version, TRITONSERVER_Message **model_stats)
UNSUPPORTED(TRITONSERVER_ServerModelConfig, TRITONSERVER_Server *server, const char *model_name,
            int64_t model_version, uint32_t config_version, TRITONSERVER_Message **model_config)
UNSUPPORTED(TRITONSERVER_ServerModelIndex, TRITONSERVER_Server *server, uint32_t flags,
            TRITONSERVER_Message **model_index)
UNSUPPORTED(TRITONSERVER_ServerLoadModel, TRITONSERVER_Server *server, const char *model_name)
UNSUPPORTED(TRITONSERVER_ServerLoadModelWithParameters, TRITONSERVER_Server *server,
            const char *model_name, const TRITONSERVER_Parameter **parameters,
            uint64_t parameter_count)
UNSUPPORTED(TRITONSERVER_ServerUnloadModel, TRITONSERVER_Server *server, const char *model_name)
UNSUPPORTED(TRITONSERVER_ServerUnloadModelAndDependents, TRITONSERVER_Server *server,
            const char *model_name)
UNSUPPORTED(TRITONSERVER_ServerMetrics, TRITONSERVER_Server *server, TRITONSERVER_Metrics **metrics)
UNSUPPORTED(TRITONSERVER_ServerInferAsync, TRITONSERVER_Server *server,
            TRITONSERVER_InferenceRequest *inference_request, TRITONSERVER_InferenceTrace *trace)
UNSUPPORTED(TRITONSERVER_MetricFamilyNew, TRITONSERVER_MetricFamily **family,
            TRITONSERVER_MetricKind kind, const char *name, const char *description)
UNSUPPORTED(TRITONSERVER_MetricFamilyDelete, TRITONSERVER_MetricFamily *family)
UNSUPPORTED(TRITONSERVER_GetMetricFamilyKind, TRITONSERVER_MetricFamily *family,
            TRITONSERVER_MetricKind *kind)
UNSUPPORTED(TRITONSERVER_MetricArgsNew, TRITONSERVER_MetricArgs **args)
UNSUPPORTED(TRITONSERVER_MetricArgsSetHistogram, TRITONSERVER_MetricArgs *args,
            const double *buckets, uint64_t buckets_count)
UNSUPPORTED(TRITONSERVER_MetricArgsDelete, TRITONSERVER_MetricArgs *args)
UNSUPPORTED(TRITONSERVER_MetricNew, TRITONSERVER_Metric **metric, TRITONSERVER_MetricFamily *family,
            const TRITONSERVER_Parameter **labels, uint64_t label_count)
UNSUPPORTED(TRITONSERVER_MetricNewWithArgs, TRITONSERVER_Metric **metric,
            TRITONSERVER_MetricFamily *family, const TRITONSERVER_Parameter **labels,
            uint64_t label_count, const TRITONSERVER_MetricArgs *args)
UNSUPPORTED(TRITONSERVER_MetricDelete, TRITONSERVER_Metric *metric)
UNSUPPORTED(TRITONSERVER_MetricValue, TRITONSERVER_Metric *metric, double *value)
UNSUPPORTED(TRITONSERVER_MetricIncrement, TRITONSERVER_Metric *metric, double value)
UNSUPPORTED(TRITONSERVER_MetricSet, TRITONSERVER_Metric *metric, double value)
UNSUPPORTED(TRITONSERVER_MetricObserve, TRITONSERVER_Metric *metric, double value)
UNSUPPORTED(TRITONSERVER_GetMetricKind, TRITONSERVER_Metric *metric, TRITONSERVER_MetricKind *kind)
// tritonbackend.h
UNSUPPORTED(TRITONBACKEND_MemoryManagerAllocate, TRITONBACKEND_MemoryManager *manager,
            void **buffer, TRITONSERVER_MemoryType memory_type, int64_t memory_type_id,
            uint64_t byte_size)
UNSUPPORTED(TRITONBACKEND_MemoryManagerFree, TRITONBACKEND_MemoryManager *manager, void *buffer,
            TRITONSERVER_MemoryType memory_type, int64_t memory_type_id)
UNSUPPORTED(TRITONBACKEND_InputProperties, TRITONBACKEND_Input *input, const char **name,
            TRITONSERVER_DataType *datatype, const int64_t **shape, uint32_t *dims_count,
            uint64_t *byte_size, uint32_t *buffer_count)
UNSUPPORTED(TRITONBACKEND_InputPropertiesForHostPolicy, TRITONBACKEND_Input *input,
            const char *host_policy_name, const char **name, TRITONSERVER_DataType *datatype,
            const int64_t **shape, uint32_t *dims_count, uint64_t *byte_size,
            uint32_t *buffer_count)
UNSUPPORTED(TRITONBACKEND_InputBuffer, TRITONBACKEND_Input *input, uint32_t index,
            const void **buffer, uint64_t *buffer_byte_size, TRITONSERVER_MemoryType *memory_type,
            int64_t *memory_type_id)
UNSUPPORTED(TRITONBACKEND_InputBufferForHostPolicy, TRITONBACKEND_Input *input,
            const char *host_policy_name, uint32_t index, const void **buffer,
            uint64_t *buffer_byte_size, TRITONSERVER_MemoryType *memory_type,
            int64_t *memory_type_id)
UNSUPPORTED(TRITONBACKEND_InputBufferAttributes, TRITONBACKEND_Input *input, uint32_t index,
            const void **buffer, TRITONSERVER_BufferAttributes **buffer_attributes)
UNSUPPORTED(TRITONBACKEND_OutputBuffer, TRITONBACKEND_Output *output, void **buffer,
            uint64_t buffer_byte_size, TRITONSERVER_MemoryType *memory_type,
            int64_t *memory_type_id)
UNSUPPORTED(TRITONBACKEND_OutputBufferAttributes, TRITONBACKEND_Output *output,
            TRITONSERVER_BufferAttributes **buffer_attributes)
UNSUPPORTED(TRITONBACKEND_RequestId, TRITONBACKEND_Request *request, const char **id)
UNSUPPORTED(TRITONBACKEND_RequestIsCancelled, TRITONBACKEND_Request *request, bool *is_cancelled)
UNSUPPORTED(TRITONBACKEND_ResponseFactoryIsCancelled, TRITONBACKEND_ResponseFactory *factory,
            bool *is_cancelled)
UNSUPPORTED(TRITONBACKEND_RequestCorrelationId, TRITONBACKEND_Request *request, uint64_t *id)
UNSUPPORTED(TRITONBACKEND_InferenceRequestTimeoutMicroseconds, TRITONBACKEND_Request *request,
            uint64_t *timeout)
UNSUPPORTED(TRITONBACKEND_RequestCorrelationIdString, TRITONBACKEND_Request *request,
            const char **id)
UNSUPPORTED(TRITONBACKEND_RequestFlags, TRITONBACKEND_Request *request, uint32_t *flags)
UNSUPPORTED(TRITONBACKEND_RequestParameterCount, TRITONBACKEND_Request *request, uint32_t *count)
UNSUPPORTED(TRITONBACKEND_RequestParameter, TRITONBACKEND_Request *request, uint32_t index,
            const char **key, TRITONSERVER_ParameterType *type, const void **vvalue)
UNSUPPORTED(TRITONBACKEND_RequestInputCount, TRITONBACKEND_Request *request, uint32_t *count)
UNSUPPORTED(TRITONBACKEND_RequestInputName, TRITONBACKEND_Request *request, uint32_t index,
            const char **input_name)
UNSUPPORTED(TRITONBACKEND_RequestInput, TRITONBACKEND_Request *request, const char *name,
            TRITONBACKEND_Input **input)
UNSUPPORTED(TRITONBACKEND_RequestInputByIndex, TRITONBACKEND_Request *request, uint32_t index,
            TRITONBACKEND_Input **input)
UNSUPPORTED(TRITONBACKEND_RequestOutputCount, TRITONBACKEND_Request *request, uint32_t *count)
UNSUPPORTED(TRITONBACKEND_RequestOutputName, TRITONBACKEND_Request *request, uint32_t index,
            const char **output_name)
UNSUPPORTED(TRITONBACKEND_RequestOutputBufferProperties, TRITONBACKEND_Request *request,
            const char *name, size_t *byte_size, TRITONSERVER_MemoryType *memory_type,
            int64_t *memory_type_id)
UNSUPPORTED(TRITONBACKEND_RequestRelease, TRITONBACKEND_Request *request, uint32_t release_flags)
UNSUPPORTED(TRITONBACKEND_RequestTrace, TRITONBACKEND_Request *request,
            TRITONSERVER_InferenceTrace **trace)
UNSUPPORTED(TRITONBACKEND_ResponseFactoryNew, TRITONBACKEND_ResponseFactory **factory,
            TRITONBACKEND_Request *request)
UNSUPPORTED(TRITONBACKEND_ResponseFactoryDelete, TRITONBACKEND_ResponseFactory *factory)
UNSUPPORTED(TRITONBACKEND_ResponseFactorySendFlags, TRITONBACKEND_ResponseFactory *factory,
            uint32_t send_flags)
UNSUPPORTED(TRITONBACKEND_ResponseNew, TRITONBACKEND_Response **response,
            TRITONBACKEND_Request *request)
UNSUPPORTED(TRITONBACKEND_ResponseNewFromFactory, TRITONBACKEND_Response **response,
            TRITONBACKEND_ResponseFactory *factory)
UNSUPPORTED(TRITONBACKEND_ResponseDelete, TRITONBACKEND_Response *response)
UNSUPPORTED(TRITONBACKEND_ResponseSetStringParameter, TRITONBACKEND_Response *response,
            const char *name, const char *value)
UNSUPPORTED(TRITONBACKEND_ResponseSetIntParameter, TRITONBACKEND_Response *response,
            const char *name, int64_t value)
UNSUPPORTED(TRITONBACKEND_ResponseSetBoolParameter, TRITONBACKEND_Response *response,
            const char *name, bool value)
UNSUPPORTED(TRITONBACKEND_ResponseSetDoubleParameter, TRITONBACKEND_Response *response,
            const char *name, double value)
UNSUPPORTED(TRITONBACKEND_ResponseOutput, TRITONBACKEND_Response *response,
            TRITONBACKEND_Output **output, const char *name, TRITONSERVER_DataType datatype,
            const int64_t *shape, uint32_t dims_count)
UNSUPPORTED(TRITONBACKEND_ResponseSend, TRITONBACKEND_Response *response, uint32_t send_flags,
            TRITONSERVER_Error *e)
UNSUPPORTED(TRITONBACKEND_StateNew, TRITONBACKEND_State **state, TRITONBACKEND_Request *request,
            const char *name, TRITONSERVER_DataType datatype, const int64_t *shape,
            uint32_t dims_count)
UNSUPPORTED(TRITONBACKEND_StateUpdate, TRITONBACKEND_State *state)
UNSUPPORTED(TRITONBACKEND_StateBuffer, TRITONBACKEND_State *state, void **buffer,
            uint64_t buffer_byte_size, TRITONSERVER_MemoryType *memory_type,
            int64_t *memory_type_id)
UNSUPPORTED(TRITONBACKEND_StateBufferAttributes, TRITONBACKEND_State *state,
            TRITONSERVER_BufferAttributes **buffer_attributes)
UNSUPPORTED(TRITONBACKEND_BackendName, TRITONBACKEND_Backend *backend, const char **name)
UNSUPPORTED(TRITONBACKEND_BackendConfig, TRITONBACKEND_Backend *backend,
            TRITONSERVER_Message **backend_config)
UNSUPPORTED(TRITONBACKEND_BackendExecutionPolicy, TRITONBACKEND_Backend *backend,
            TRITONBACKEND_ExecutionPolicy *policy)
UNSUPPORTED(TRITONBACKEND_BackendSetExecutionPolicy, TRITONBACKEND_Backend *backend,
            TRITONBACKEND_ExecutionPolicy policy)
UNSUPPORTED(TRITONBACKEND_BackendArtifacts, TRITONBACKEND_Backend *backend,
            TRITONBACKEND_ArtifactType *artifact_type, const char **location)
UNSUPPORTED(TRITONBACKEND_BackendMemoryManager, TRITONBACKEND_Backend *backend,
            TRITONBACKEND_MemoryManager **manager)
UNSUPPORTED(TRITONBACKEND_BackendState, TRITONBACKEND_Backend *backend, void **state)
UNSUPPORTED(TRITONBACKEND_BackendSetState, TRITONBACKEND_Backend *backend, void *state)
UNSUPPORTED(TRITONBACKEND_ModelName, TRITONBACKEND_Model *model, const char **name)
UNSUPPORTED(TRITONBACKEND_ModelVersion, TRITONBACKEND_Model *model, uint64_t *version)
UNSUPPORTED(TRITONBACKEND_ModelRepository, TRITONBACKEND_Model *model,
            TRITONBACKEND_ArtifactType *artifact_type, const char **location)
UNSUPPORTED(TRITONBACKEND_ModelConfig, TRITONBACKEND_Model *model, uint32_t config_version,
            TRITONSERVER_Message **model_config)
UNSUPPORTED(TRITONBACKEND_ModelAutoCompleteConfig, TRITONBACKEND_Model *model,
            bool *auto_complete_config)
UNSUPPORTED(TRITONBACKEND_ModelSetConfig, TRITONBACKEND_Model *model, uint32_t config_version,
            TRITONSERVER_Message *model_config)
UNSUPPORTED(TRITONBACKEND_ModelServer, TRITONBACKEND_Model *model, TRITONSERVER_Server **server)
UNSUPPORTED(TRITONBACKEND_ModelBackend, TRITONBACKEND_Model *model, TRITONBACKEND_Backend **backend)
UNSUPPORTED(TRITONBACKEND_ModelState, TRITONBACKEND_Model *model, void **state)
UNSUPPORTED(TRITONBACKEND_ModelSetState, TRITONBACKEND_Model *model, void *state)
UNSUPPORTED(TRITONBACKEND_ModelReportMemoryUsage, TRITONBACKEND_Model *model,
            TRITONSERVER_BufferAttributes **usage, uint32_t usage_size)
UNSUPPORTED(TRITONBACKEND_ModelInstanceName, TRITONBACKEND_ModelInstance *instance,
            const char **name)
UNSUPPORTED(TRITONBACKEND_ModelInstanceKind, TRITONBACKEND_ModelInstance *instance,
            TRITONSERVER_InstanceGroupKind *kind)
UNSUPPORTED(TRITONBACKEND_ModelInstanceDeviceId, TRITONBACKEND_ModelInstance *instance,
            int32_t *device_id)
UNSUPPORTED(TRITONBACKEND_ModelInstanceHostPolicy, TRITONBACKEND_ModelInstance *instance,
            TRITONSERVER_Message **host_policy)
UNSUPPORTED(TRITONBACKEND_ModelInstanceIsPassive, TRITONBACKEND_ModelInstance *instance,
            bool *is_passive)
UNSUPPORTED(TRITONBACKEND_ModelInstanceProfileCount, TRITONBACKEND_ModelInstance *instance,
            uint32_t *count)
UNSUPPORTED(TRITONBACKEND_ModelInstanceProfileName, TRITONBACKEND_ModelInstance *instance,
            uint32_t index, const char **profile_name)
UNSUPPORTED(TRITONBACKEND_ModelInstanceSecondaryDeviceCount, TRITONBACKEND_ModelInstance *instance,
            uint32_t *count)
UNSUPPORTED(TRITONBACKEND_ModelInstanceSecondaryDeviceProperties,
            TRITONBACKEND_ModelInstance *instance, uint32_t index, const char **kind, int64_t *id)
UNSUPPORTED(TRITONBACKEND_ModelInstanceModel, TRITONBACKEND_ModelInstance *instance,
            TRITONBACKEND_Model **model)
UNSUPPORTED(TRITONBACKEND_ModelInstanceState, TRITONBACKEND_ModelInstance *instance, void **state)
UNSUPPORTED(TRITONBACKEND_ModelInstanceSetState, TRITONBACKEND_ModelInstance *instance, void *state)
UNSUPPORTED(TRITONBACKEND_ModelInstanceReportMemoryUsage, TRITONBACKEND_ModelInstance *instance,
            TRITONSERVER_BufferAttributes **usage, uint32_t usage_size)
UNSUPPORTED(TRITONBACKEND_ModelInstanceReportStatistics, TRITONBACKEND_ModelInstance *instance,
            TRITONBACKEND_Request *request, bool success, uint64_t exec_start_ns,
            uint64_t compute_start_ns, uint64_t compute_end_ns, uint64_t exec_end_ns)
UNSUPPORTED(TRITONBACKEND_ModelInstanceResponseStatisticsNew,
            TRITONBACKEND_ModelInstanceResponseStatistics **response_statistics)
UNSUPPORTED(TRITONBACKEND_ModelInstanceResponseStatisticsDelete,
            TRITONBACKEND_ModelInstanceResponseStatistics *response_statistics)
UNSUPPORTED(TRITONBACKEND_ModelInstanceResponseStatisticsSetModelInstance,
            TRITONBACKEND_ModelInstanceResponseStatistics *response_statistics,
            TRITONBACKEND_ModelInstance *model_instance)
UNSUPPORTED(TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseFactory,
            TRITONBACKEND_ModelInstanceResponseStatistics *response_statistics,
            TRITONBACKEND_ResponseFactory *response_factory)
UNSUPPORTED(TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseStart,
            TRITONBACKEND_ModelInstanceResponseStatistics *response_statistics,
            uint64_t response_start)
UNSUPPORTED(TRITONBACKEND_ModelInstanceResponseStatisticsSetComputeOutputStart,
            TRITONBACKEND_ModelInstanceResponseStatistics *response_statistics,
            uint64_t compute_output_start)
UNSUPPORTED(TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseEnd,
            TRITONBACKEND_ModelInstanceResponseStatistics *response_statistics,
            uint64_t response_end)
UNSUPPORTED(TRITONBACKEND_ModelInstanceResponseStatisticsSetError,
            TRITONBACKEND_ModelInstanceResponseStatistics *response_statistics,
            TRITONSERVER_Error *e)
UNSUPPORTED(TRITONBACKEND_ModelInstanceReportResponseStatistics,
            TRITONBACKEND_ModelInstanceResponseStatistics *response_statistics)
UNSUPPORTED(TRITONBACKEND_ModelInstanceReportBatchStatistics, TRITONBACKEND_ModelInstance *instance,
            uint64_t batch_size, uint64_t exec_start_ns, uint64_t compute_start_ns,
            uint64_t compute_end_ns, uint64_t exec_end_ns)
UNSUPPORTED(TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup,
            TRITONBACKEND_BackendAttribute *backend_attributes, TRITONSERVER_InstanceGroupKind kind,
            uint64_t count, const uint64_t *device_ids, uint64_t id_count)
UNSUPPORTED(TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading,
            TRITONBACKEND_BackendAttribute *backend_attributes, bool enabled)
UNSUPPORTED(TRITONBACKEND_InferenceResponseOutputByName, TRITONBACKEND_Response *response,
            const char *name, TRITONSERVER_DataType *datatype, const int64_t **shape,
            uint64_t *dim_count)
UNSUPPORTED(TRITONBACKEND_InferenceResponseOutput, TRITONBACKEND_Response *response, uint32_t index,
            const char **name, TRITONSERVER_DataType *datatype, const int64_t **shape,
            uint64_t *dim_count)
// tritoncache.h
UNSUPPORTED(TRITONCACHE_CacheEntryBufferCount, TRITONCACHE_CacheEntry *entry, size_t *count)
UNSUPPORTED(TRITONCACHE_CacheEntryAddBuffer, TRITONCACHE_CacheEntry *entry, void *base,
            TRITONSERVER_BufferAttributes *buffer_attributes)
UNSUPPORTED(TRITONCACHE_CacheEntryGetBuffer, TRITONCACHE_CacheEntry *entry, size_t index,
            void **base, TRITONSERVER_BufferAttributes *buffer_attributes)
UNSUPPORTED(TRITONCACHE_CacheEntrySetBuffer, TRITONCACHE_CacheEntry *entry, size_t index,
            void *new_base, TRITONSERVER_BufferAttributes *buffer_attributes)
UNSUPPORTED(TRITONCACHE_Copy, TRITONCACHE_Allocator *allocator, TRITONCACHE_CacheEntry *entry)
// tritonrepoagent.h
UNSUPPORTED(TRITONREPOAGENT_ModelRepositoryLocation, TRITONREPOAGENT_Agent *agent,
            TRITONREPOAGENT_AgentModel *model, TRITONREPOAGENT_ArtifactType *artifact_type,
            const char **location)
UNSUPPORTED(TRITONREPOAGENT_ModelRepositoryLocationAcquire, TRITONREPOAGENT_Agent *agent,
            TRITONREPOAGENT_AgentModel *model, TRITONREPOAGENT_ArtifactType artifact_type,
            const char **location)
UNSUPPORTED(TRITONREPOAGENT_ModelRepositoryLocationRelease, TRITONREPOAGENT_Agent *agent,
            TRITONREPOAGENT_AgentModel *model, const char *location)
UNSUPPORTED(TRITONREPOAGENT_ModelRepositoryUpdate, TRITONREPOAGENT_Agent *agent,
            TRITONREPOAGENT_AgentModel *model, TRITONREPOAGENT_ArtifactType artifact_type,
            const char *location)
UNSUPPORTED(TRITONREPOAGENT_ModelParameterCount, TRITONREPOAGENT_Agent *agent,
            TRITONREPOAGENT_AgentModel *model, uint32_t *count)
UNSUPPORTED(TRITONREPOAGENT_ModelParameter, TRITONREPOAGENT_Agent *agent,
            TRITONREPOAGENT_AgentModel *model, uint32_t index, const char **parameter_name,
            const char **parameter_value)
UNSUPPORTED(TRITONREPOAGENT_ModelConfig, TRITONREPOAGENT_Agent *agent,
            TRITONREPOAGENT_AgentModel *model, uint32_t config_version,
            TRITONSERVER_Message **model_config)
UNSUPPORTED(TRITONREPOAGENT_ModelState, TRITONREPOAGENT_AgentModel *model, void **state)
UNSUPPORTED(TRITONREPOAGENT_ModelSetState, TRITONREPOAGENT_AgentModel *model, void *state)
UNSUPPORTED(TRITONREPOAGENT_State, TRITONREPOAGENT_Agent *agent, void **state)
UNSUPPORTED(TRITONREPOAGENT_SetState, TRITONREPOAGENT_Agent *agent, void *state)
