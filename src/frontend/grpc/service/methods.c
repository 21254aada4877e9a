// SPDX-License-Identifier: Apache-2.0
// The table of methods. It is searched row by row, so inference comes first.
#include "frontend/grpc/service/methods.h"

#include "frontend/grpc/proto/grpc_service.pb-c.h"
#include "frontend/grpc/proto/health.pb-c.h"
#include "frontend/grpc/service/control_method.h"
#include "frontend/grpc/service/grpc_infer.h"
#include "frontend/grpc/service/handlers.h"

#define INFERENCE "/inference.GRPCInferenceService/"
#define HEALTH    "/grpc.health.v1.Health/"
#define REFLECT   "/ServerReflectionInfo"

// A control method of the inference service; its messages and its runner have the same name.
#define CONTROL(name, category, handle, messages, member)                                          \
  {                                                                                                \
    INFERENCE name, CATEGORY_##category, handle, false, NULL,                                      \
        &inference__##messages##_request__descriptor, grpc_##messages,                             \
        &inference__##messages##_response__descriptor, member                                      \
  }
#define OTHER(path, category, handle, streams)                                                     \
  {                                                                                                \
    path, CATEGORY_##category, handle, streams, NULL, NULL, NULL, NULL, NULL                       \
  }
#define INFER(name, handle, streams)                                                               \
  {                                                                                                \
    INFERENCE name, CATEGORY_INFERENCE, handle, streams, grpc_infer_message_begins, NULL, NULL,    \
        NULL, NULL                                                                                 \
  }
#define NOW    control_method_run
#define PROBE  control_method_probe
#define BLOCK  control_method_block
#define DRIVER control_method_ask_driver

static const method methods[] = {
    INFER("ModelInfer", grpc_handle_model_infer, false),
    INFER("ModelStreamInfer", grpc_handle_model_stream_infer, true),

    CONTROL("ServerLive", HEALTH, NOW, server_live, NULL),
    CONTROL("ServerReady", HEALTH, grpc_handle_server_ready, server_ready, NULL),
    CONTROL("ModelReady", HEALTH, PROBE, model_ready, NULL),
    {HEALTH "Check", CATEGORY_HEALTH, PROBE, false, NULL,
     &grpc__health__v1__health_check_request__descriptor, grpc_health_check,
     &grpc__health__v1__health_check_response__descriptor, NULL},
    OTHER(HEALTH "Watch", HEALTH, grpc_handle_health_watch, true),

    CONTROL("ServerMetadata", METADATA, NOW, server_metadata, NULL),
    CONTROL("ModelMetadata", METADATA, grpc_handle_about_model, model_metadata, NULL),
    CONTROL("ModelConfig", MODEL_CONFIG, grpc_handle_about_model, model_config, "config"),
    // A job, because the statistics of all models are long; a probe, so that they do not wait
    // behind loads.
    CONTROL("ModelStatistics", STATISTICS, PROBE, model_statistics, NULL),

    CONTROL("RepositoryIndex", MODEL_REPOSITORY, BLOCK, repository_index, "models"),
    CONTROL("RepositoryModelLoad", MODEL_REPOSITORY, BLOCK, repository_model_load, NULL),
    CONTROL("RepositoryModelUnload", MODEL_REPOSITORY, BLOCK, repository_model_unload, NULL),

    CONTROL("SystemSharedMemoryStatus", SHARED_MEMORY, NOW, system_shared_memory_status, "regions"),
    CONTROL("SystemSharedMemoryRegister", SHARED_MEMORY, PROBE, system_shared_memory_register,
            NULL),
    CONTROL("SystemSharedMemoryUnregister", SHARED_MEMORY, PROBE, system_shared_memory_unregister,
            NULL),
    CONTROL("CudaSharedMemoryStatus", SHARED_MEMORY, NOW, cuda_shared_memory_status, "regions"),
    CONTROL("CudaSharedMemoryRegister", SHARED_MEMORY, DRIVER, cuda_shared_memory_register, NULL),
    CONTROL("CudaSharedMemoryUnregister", SHARED_MEMORY, DRIVER, cuda_shared_memory_unregister,
            NULL),

    OTHER("/grpc.reflection.v1.ServerReflection" REFLECT, METADATA, grpc_handle_reflection, true),
    OTHER("/grpc.reflection.v1alpha.ServerReflection" REFLECT, METADATA, grpc_handle_reflection,
          true),

    CONTROL("TraceSetting", TRACE, PROBE, trace_setting, "settings"),
    CONTROL("LogSettings", LOGGING, NOW, log_settings, "settings"),
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
