// Inference first: a call is looked up row by row.
#include "frontend/grpc/service/methods.h"

#include "frontend/grpc/service/handlers.h"
#include "frontend/grpc/service/infer.h"

#define INFERENCE "/inference.GRPCInferenceService/"
#define HEALTH    "/grpc.health.v1.Health/"
#define REFLECT   "/ServerReflectionInfo"

static const method methods[] = {
    {INFERENCE "ModelInfer", CATEGORY_INFERENCE, grpc_handle_model_infer, false},
    {INFERENCE "ModelStreamInfer", CATEGORY_INFERENCE, grpc_handle_model_stream_infer, true},

    {INFERENCE "ServerLive", CATEGORY_HEALTH, grpc_handle_server_live, false},
    {INFERENCE "ServerReady", CATEGORY_HEALTH, grpc_handle_server_ready, false},
    {INFERENCE "ModelReady", CATEGORY_HEALTH, grpc_handle_model_ready, false},
    {HEALTH "Check", CATEGORY_HEALTH, grpc_handle_health_check, false},
    {HEALTH "Watch", CATEGORY_HEALTH, grpc_handle_health_watch, true},

    {INFERENCE "ServerMetadata", CATEGORY_METADATA, grpc_handle_server_metadata, false},
    {INFERENCE "ModelMetadata", CATEGORY_METADATA, grpc_handle_model_metadata, false},
    {INFERENCE "ModelConfig", CATEGORY_MODEL_CONFIG, grpc_handle_model_config, false},
    {INFERENCE "ModelStatistics", CATEGORY_STATISTICS, grpc_handle_model_statistics, false},

    {INFERENCE "RepositoryIndex", CATEGORY_MODEL_REPOSITORY, grpc_handle_repository_index, false},
    {INFERENCE "RepositoryModelLoad", CATEGORY_MODEL_REPOSITORY, grpc_handle_model_load, false},
    {INFERENCE "RepositoryModelUnload", CATEGORY_MODEL_REPOSITORY, grpc_handle_model_unload, false},

    {INFERENCE "SystemSharedMemoryStatus", CATEGORY_SHARED_MEMORY, grpc_handle_system_memory_status,
     false},
    {INFERENCE "SystemSharedMemoryRegister", CATEGORY_SHARED_MEMORY,
     grpc_handle_system_memory_register, false},
    {INFERENCE "SystemSharedMemoryUnregister", CATEGORY_SHARED_MEMORY,
     grpc_handle_system_memory_unregister, false},
    {INFERENCE "CudaSharedMemoryStatus", CATEGORY_SHARED_MEMORY, grpc_handle_cuda_memory_status,
     false},
    {INFERENCE "CudaSharedMemoryRegister", CATEGORY_SHARED_MEMORY, grpc_handle_cuda_memory_register,
     false},
    {INFERENCE "CudaSharedMemoryUnregister", CATEGORY_SHARED_MEMORY,
     grpc_handle_cuda_memory_unregister, false},

    {"/grpc.reflection.v1.ServerReflection" REFLECT, CATEGORY_METADATA, grpc_handle_reflection,
     true},
    {"/grpc.reflection.v1alpha.ServerReflection" REFLECT, CATEGORY_METADATA, grpc_handle_reflection,
     true},

    {INFERENCE "TraceSetting", CATEGORY_TRACE, grpc_handle_trace_setting, false},
    {INFERENCE "LogSettings", CATEGORY_LOGGING, grpc_handle_log_settings, false},
};

#define METHOD_COUNT (sizeof(methods) / sizeof(methods[0]))

const method *methods_find(slice path)
{
  for (size_t i = 0; i < METHOD_COUNT; i++)
    if (slice_equal_text(path, methods[i].path))
      return &methods[i];
  return NULL;
}

const method *methods_all(size_t *count)
{
  *count = METHOD_COUNT;
  return methods;
}
