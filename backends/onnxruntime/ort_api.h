// SPDX-License-Identifier: Apache-2.0
// The used part of ONNX Runtime's C API, declared here so that building needs no ONNX Runtime.
//
// The library exports OrtGetApiBase, which returns a table of functions. The table only grows at
// its end, so a function keeps its index in all later versions. Each row below is an index in that
// table, the function's name in ONNX Runtime's documentation (onnxruntime.ai, "C API", struct
// OrtApi) and its signature. Names and numbers in this file are ONNX Runtime's.
#ifndef NEREID_ORT_API_H
#define NEREID_ORT_API_H

#include <stddef.h>
#include <stdint.h>

// The version of the table with all rows: ONNX Runtime 1.15.
#define ORT_API_VERSION_NEEDED 15

typedef struct ort_status ort_status; // NULL is success
typedef struct ort_env ort_env;
typedef struct ort_session ort_session;
typedef struct ort_session_options ort_session_options;
typedef struct ort_run_options ort_run_options;
typedef struct ort_threading_options ort_threading_options;
typedef struct ort_value ort_value;
typedef struct ort_type_info ort_type_info;
typedef struct ort_tensor_info ort_tensor_info; // OrtTensorTypeAndShapeInfo
typedef struct ort_memory_info ort_memory_info;
typedef struct ort_allocator ort_allocator;
typedef struct ort_binding ort_binding; // OrtIoBinding
typedef struct ort_cuda_options ort_cuda_options;
typedef struct ort_tensorrt_options ort_tensorrt_options;

// ONNXTensorElementDataType
typedef enum ort_element_type {
  ORT_ELEMENT_UNDEFINED = 0,
  ORT_ELEMENT_FLOAT = 1,
  ORT_ELEMENT_UINT8 = 2,
  ORT_ELEMENT_INT8 = 3,
  ORT_ELEMENT_UINT16 = 4,
  ORT_ELEMENT_INT16 = 5,
  ORT_ELEMENT_INT32 = 6,
  ORT_ELEMENT_INT64 = 7,
  ORT_ELEMENT_STRING = 8,
  ORT_ELEMENT_BOOL = 9,
  ORT_ELEMENT_FLOAT16 = 10,
  ORT_ELEMENT_DOUBLE = 11,
  ORT_ELEMENT_UINT32 = 12,
  ORT_ELEMENT_UINT64 = 13,
  ORT_ELEMENT_BFLOAT16 = 16,
} ort_element_type;

// ONNXType
typedef enum ort_kind {
  ORT_KIND_UNKNOWN = 0,
  ORT_KIND_TENSOR = 1,
  ORT_KIND_SEQUENCE = 2,
  ORT_KIND_MAP = 3,
  ORT_KIND_OPAQUE = 4,
  ORT_KIND_SPARSE_TENSOR = 5,
  ORT_KIND_OPTIONAL = 6,
} ort_kind;

// GraphOptimizationLevel, ExecutionMode, OrtLoggingLevel, OrtAllocatorType, OrtMemType
#define ORT_OPTIMIZE_NONE     0
#define ORT_OPTIMIZE_BASIC    1
#define ORT_OPTIMIZE_EXTENDED 2
#define ORT_OPTIMIZE_ALL      99
#define ORT_RUN_SEQUENTIAL    0
#define ORT_RUN_PARALLEL      1
#define ORT_LOG_VERBOSE       0
#define ORT_LOG_INFO          1
#define ORT_LOG_WARNING       2
#define ORT_LOG_ERROR         3
#define ORT_LOG_FATAL         4
#define ORT_ALLOCATOR_ARENA   1
#define ORT_MEMORY_DEFAULT    0

typedef void (*ort_log_function)(void *context, int severity, const char *category,
                                 const char *log_id, const char *code_location,
                                 const char *message);

// clang-format off
#define ORT_FUNCTIONS(X)                                                                           \
  X(1, GetErrorCode, int, (const ort_status *status))                                              \
  X(2, GetErrorMessage, const char *, (const ort_status *status))                                  \
  X(4, CreateEnvWithCustomLogger, ort_status *,                                                    \
    (ort_log_function log, void *context, int level, const char *log_id, ort_env **env))           \
  X(8, CreateSessionFromArray, ort_status *,                                                       \
    (const ort_env *env, const void *data, size_t size, const ort_session_options *options,        \
     ort_session **session))                                                                       \
  X(9, Run, ort_status *,                                                                          \
    (ort_session *session, const ort_run_options *options, const char *const *input_names,         \
     const ort_value *const *inputs, size_t input_count, const char *const *output_names,          \
     size_t output_count, ort_value **outputs))                                                    \
  X(10, CreateSessionOptions, ort_status *, (ort_session_options **options))                       \
  X(13, SetSessionExecutionMode, ort_status *, (ort_session_options *options, int mode))           \
  X(16, EnableMemPattern, ort_status *, (ort_session_options *options))                            \
  X(17, DisableMemPattern, ort_status *, (ort_session_options *options))                           \
  X(18, EnableCpuMemArena, ort_status *, (ort_session_options *options))                           \
  X(19, DisableCpuMemArena, ort_status *, (ort_session_options *options))                          \
  X(23, SetSessionGraphOptimizationLevel, ort_status *, (ort_session_options *options, int level)) \
  X(24, SetIntraOpNumThreads, ort_status *, (ort_session_options *options, int count))             \
  X(25, SetInterOpNumThreads, ort_status *, (ort_session_options *options, int count))             \
  X(30, SessionGetInputCount, ort_status *, (const ort_session *session, size_t *count))           \
  X(31, SessionGetOutputCount, ort_status *, (const ort_session *session, size_t *count))          \
  X(32, SessionGetOverridableInitializerCount, ort_status *,                                       \
    (const ort_session *session, size_t *count))                                                   \
  X(33, SessionGetInputTypeInfo, ort_status *,                                                     \
    (const ort_session *session, size_t index, ort_type_info **info))                              \
  X(34, SessionGetOutputTypeInfo, ort_status *,                                                    \
    (const ort_session *session, size_t index, ort_type_info **info))                              \
  X(35, SessionGetOverridableInitializerTypeInfo, ort_status *,                                    \
    (const ort_session *session, size_t index, ort_type_info **info))                              \
  X(36, SessionGetInputName, ort_status *,                                                         \
    (const ort_session *session, size_t index, ort_allocator *allocator, char **name))             \
  X(37, SessionGetOutputName, ort_status *,                                                        \
    (const ort_session *session, size_t index, ort_allocator *allocator, char **name))             \
  X(38, SessionGetOverridableInitializerName, ort_status *,                                        \
    (const ort_session *session, size_t index, ort_allocator *allocator, char **name))             \
  X(39, CreateRunOptions, ort_status *, (ort_run_options **options))                               \
  X(48, CreateTensorAsOrtValue, ort_status *,                                                      \
    (ort_allocator *allocator, const int64_t *dims, size_t rank, ort_element_type type,            \
     ort_value **value))                                                                           \
  X(49, CreateTensorWithDataAsOrtValue, ort_status *,                                              \
    (const ort_memory_info *memory, void *data, size_t byte_size, const int64_t *dims,             \
     size_t rank, ort_element_type type, ort_value **value))                                       \
  X(51, GetTensorMutableData, ort_status *, (ort_value *value, void **data))                       \
  X(53, GetStringTensorDataLength, ort_status *, (const ort_value *value, size_t *byte_size))      \
  X(54, GetStringTensorContent, ort_status *,                                                      \
    (const ort_value *value, void *data, size_t byte_size, size_t *offsets, size_t count))         \
  X(55, CastTypeInfoToTensorInfo, ort_status *,                                                    \
    (const ort_type_info *info, const ort_tensor_info **tensor))                                   \
  X(56, GetOnnxTypeFromTypeInfo, ort_status *, (const ort_type_info *info, ort_kind *kind))        \
  X(60, GetTensorElementType, ort_status *,                                                        \
    (const ort_tensor_info *tensor, ort_element_type *type))                                       \
  X(61, GetDimensionsCount, ort_status *, (const ort_tensor_info *tensor, size_t *rank))           \
  X(62, GetDimensions, ort_status *, (const ort_tensor_info *tensor, int64_t *dims, size_t rank))  \
  X(63, GetSymbolicDimensions, ort_status *,                                                       \
    (const ort_tensor_info *tensor, const char **names, size_t rank))                              \
  X(65, GetTensorTypeAndShape, ort_status *, (const ort_value *value, ort_tensor_info **tensor))   \
  X(69, CreateCpuMemoryInfo, ort_status *, (int allocator, int memory, ort_memory_info **info))    \
  X(76, AllocatorFree, ort_status *, (ort_allocator *allocator, void *memory))                     \
  X(78, GetAllocatorWithDefaultOptions, ort_status *, (ort_allocator **allocator))                 \
  X(92, ReleaseEnv, void, (ort_env *env))                                                          \
  X(93, ReleaseStatus, void, (ort_status *status))                                                 \
  X(94, ReleaseMemoryInfo, void, (ort_memory_info *info))                                          \
  X(95, ReleaseSession, void, (ort_session *session))                                              \
  X(96, ReleaseValue, void, (ort_value *value))                                                    \
  X(97, ReleaseRunOptions, void, (ort_run_options *options))                                       \
  X(98, ReleaseTypeInfo, void, (ort_type_info *info))                                              \
  X(99, ReleaseTensorTypeAndShapeInfo, void, (ort_tensor_info *tensor))                            \
  X(100, ReleaseSessionOptions, void, (ort_session_options *options))                              \
  X(120, DisablePerSessionThreads, ort_status *, (ort_session_options *options))                   \
  X(121, CreateThreadingOptions, ort_status *, (ort_threading_options **options))                  \
  X(122, ReleaseThreadingOptions, void, (ort_threading_options *options))                          \
  X(125, GetAvailableProviders, ort_status *, (char ***names, int *count))                         \
  X(126, ReleaseAvailableProviders, ort_status *, (char **names, int count))                       \
  X(130, AddSessionConfigEntry, ort_status *,                                                      \
    (ort_session_options *options, const char *key, const char *value))                            \
  X(147, SetGlobalIntraOpNumThreads, ort_status *, (ort_threading_options *options, int count))    \
  X(148, SetGlobalInterOpNumThreads, ort_status *, (ort_threading_options *options, int count))    \
  X(149, SetGlobalSpinControl, ort_status *, (ort_threading_options *options, int allow))          \
  X(151, CreateEnvWithCustomLoggerAndGlobalThreadPools, ort_status *,                              \
    (ort_log_function log, void *context, int level, const char *log_id,                           \
     const ort_threading_options *options, ort_env **env))                                         \
  X(165, AddRunConfigEntry, ort_status *,                                                          \
    (ort_run_options *options, const char *key, const char *value))                                \
  X(216, SessionOptionsAppendExecutionProvider, ort_status *,                                      \
    (ort_session_options *options, const char *name, const char *const *keys,                      \
     const char *const *values, size_t count))                                                     \
  X(228, RegisterCustomOpsLibrary_V2, ort_status *,                                                \
    (ort_session_options *options, const char *path))                                              \
  X(252, GetResizedStringTensorElementBuffer, ort_status *,                                        \
    (ort_value *value, size_t index, size_t byte_size, char **data))
// clang-format on

// Functions for instances on a GPU, and the version with all of them: ONNX Runtime 1.16.
#define ORT_GPU_VERSION 16
// clang-format off
#define ORT_GPU_FUNCTIONS(X)                                                                       \
  X(68, CreateMemoryInfo, ort_status *,                                                            \
    (const char *name, int allocator, int device, int memory, ort_memory_info **info))             \
  X(133, RunWithBinding, ort_status *,                                                             \
    (ort_session *session, const ort_run_options *options, const ort_binding *binding))            \
  X(134, CreateIoBinding, ort_status *, (ort_session *session, ort_binding **binding))             \
  X(135, ReleaseIoBinding, void, (ort_binding *binding))                                           \
  X(136, BindInput, ort_status *,                                                                  \
    (ort_binding *binding, const char *name, const ort_value *value))                              \
  X(137, BindOutput, ort_status *,                                                                 \
    (ort_binding *binding, const char *name, const ort_value *value))                              \
  X(138, BindOutputToDevice, ort_status *,                                                         \
    (ort_binding *binding, const char *name, const ort_memory_info *memory))                       \
  X(140, GetBoundOutputValues, ort_status *,                                                       \
    (const ort_binding *binding, ort_allocator *allocator, ort_value ***values, size_t *count))    \
  X(141, ClearBoundInputs, void, (ort_binding *binding))                                           \
  X(142, ClearBoundOutputs, void, (ort_binding *binding))                                          \
  X(170, SessionOptionsAppendExecutionProvider_TensorRT_V2, ort_status *,                          \
    (ort_session_options *options, const ort_tensorrt_options *provider))                          \
  X(171, CreateTensorRTProviderOptions, ort_status *, (ort_tensorrt_options **provider))           \
  X(172, UpdateTensorRTProviderOptions, ort_status *,                                              \
    (ort_tensorrt_options *provider, const char *const *keys, const char *const *values,           \
     size_t count))                                                                                \
  X(174, ReleaseTensorRTProviderOptions, void, (ort_tensorrt_options *provider))                   \
  X(204, SessionOptionsAppendExecutionProvider_CUDA_V2, ort_status *,                              \
    (ort_session_options *options, const ort_cuda_options *provider))                              \
  X(205, CreateCUDAProviderOptions, ort_status *, (ort_cuda_options **provider))                   \
  X(206, UpdateCUDAProviderOptions, ort_status *,                                                  \
    (ort_cuda_options *provider, const char *const *keys, const char *const *values,               \
     size_t count))                                                                                \
  X(207, GetCUDAProviderOptionsAsString, ort_status *,                                             \
    (const ort_cuda_options *provider, ort_allocator *allocator, char **text))                     \
  X(208, ReleaseCUDAProviderOptions, void, (ort_cuda_options *provider))                           \
  X(261, UpdateTensorRTProviderOptionsWithValue, ort_status *,                                     \
    (ort_tensorrt_options *provider, const char *key, void *value))                                \
  X(263, UpdateCUDAProviderOptionsWithValue, ort_status *,                                         \
    (ort_cuda_options *provider, const char *key, void *value))
// clang-format on

// Since version 18, at this index.
#define ORT_ADD_DATA_FILES_VERSION 18
#define ORT_ADD_DATA_FILES_INDEX   279
typedef ort_status *ort_add_data_files(ort_session_options *options, const char *const *names,
                                       char *const *contents, const size_t *sizes, size_t count);

typedef struct ort_api {
#define ORT_MEMBER(index, name, result, arguments) result(*name) arguments;
  ORT_FUNCTIONS(ORT_MEMBER)
} ort_api;

typedef struct ort_gpu_api {
  ORT_GPU_FUNCTIONS(ORT_MEMBER)
#undef ORT_MEMBER
} ort_gpu_api;

// Returned by OrtGetApiBase; it has two members in all versions.
typedef struct ort_api_base {
  const void *(*GetApi)(uint32_t version);
  const char *(*GetVersionString)(void);
} ort_api_base;

#endif
