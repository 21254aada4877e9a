// Exported functions that are not implemented yet: each returns UNSUPPORTED with its own name, so
// that a program or plug-in that needs one sees which. Whoever implements a function deletes its
// line here; docs/abi.md is made from what is left (tests/abi/abi.py). The definitions are weak, so
// that a line too many does not break the link but a test (abi_exports).
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

// One line a function, whatever its length: implementing one is deleting one line.
// clang-format off
// tritonserver.h
UNSUPPORTED(TRITONSERVER_ServerRegisterModelRepository, TRITONSERVER_Server *server, const char *repository_path, const TRITONSERVER_Parameter **name_mapping, uint32_t mapping_count)
UNSUPPORTED(TRITONSERVER_ServerUnregisterModelRepository, TRITONSERVER_Server *server, const char *repository_path)
// tritonbackend.h
UNSUPPORTED(TRITONBACKEND_StateNew, TRITONBACKEND_State **state, TRITONBACKEND_Request *request, const char *name, TRITONSERVER_DataType datatype, const int64_t *shape, uint32_t dims_count)
UNSUPPORTED(TRITONBACKEND_StateUpdate, TRITONBACKEND_State *state)
UNSUPPORTED(TRITONBACKEND_StateBuffer, TRITONBACKEND_State *state, void **buffer, uint64_t buffer_byte_size, TRITONSERVER_MemoryType *memory_type, int64_t *memory_type_id)
UNSUPPORTED(TRITONBACKEND_StateBufferAttributes, TRITONBACKEND_State *state, TRITONSERVER_BufferAttributes **buffer_attributes)
UNSUPPORTED(TRITONBACKEND_ModelReportMemoryUsage, TRITONBACKEND_Model *model, TRITONSERVER_BufferAttributes **usage, uint32_t usage_size)
UNSUPPORTED(TRITONBACKEND_ModelInstanceReportMemoryUsage, TRITONBACKEND_ModelInstance *instance, TRITONSERVER_BufferAttributes **usage, uint32_t usage_size)
// tritoncache.h
UNSUPPORTED(TRITONCACHE_CacheEntryBufferCount, TRITONCACHE_CacheEntry *entry, size_t *count)
UNSUPPORTED(TRITONCACHE_CacheEntryAddBuffer, TRITONCACHE_CacheEntry *entry, void *base, TRITONSERVER_BufferAttributes *buffer_attributes)
UNSUPPORTED(TRITONCACHE_CacheEntryGetBuffer, TRITONCACHE_CacheEntry *entry, size_t index, void **base, TRITONSERVER_BufferAttributes *buffer_attributes)
UNSUPPORTED(TRITONCACHE_CacheEntrySetBuffer, TRITONCACHE_CacheEntry *entry, size_t index, void *new_base, TRITONSERVER_BufferAttributes *buffer_attributes)
UNSUPPORTED(TRITONCACHE_Copy, TRITONCACHE_Allocator *allocator, TRITONCACHE_CacheEntry *entry)
// tritonrepoagent.h
UNSUPPORTED(TRITONREPOAGENT_ModelRepositoryLocation, TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model, TRITONREPOAGENT_ArtifactType *artifact_type, const char **location)
UNSUPPORTED(TRITONREPOAGENT_ModelRepositoryLocationAcquire, TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model, TRITONREPOAGENT_ArtifactType artifact_type, const char **location)
UNSUPPORTED(TRITONREPOAGENT_ModelRepositoryLocationRelease, TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model, const char *location)
UNSUPPORTED(TRITONREPOAGENT_ModelRepositoryUpdate, TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model, TRITONREPOAGENT_ArtifactType artifact_type, const char *location)
UNSUPPORTED(TRITONREPOAGENT_ModelParameterCount, TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model, uint32_t *count)
UNSUPPORTED(TRITONREPOAGENT_ModelParameter, TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model, uint32_t index, const char **parameter_name, const char **parameter_value)
UNSUPPORTED(TRITONREPOAGENT_ModelConfig, TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model, uint32_t config_version, TRITONSERVER_Message **model_config)
UNSUPPORTED(TRITONREPOAGENT_ModelState, TRITONREPOAGENT_AgentModel *model, void **state)
UNSUPPORTED(TRITONREPOAGENT_ModelSetState, TRITONREPOAGENT_AgentModel *model, void *state)
UNSUPPORTED(TRITONREPOAGENT_State, TRITONREPOAGENT_Agent *agent, void **state)
UNSUPPORTED(TRITONREPOAGENT_SetState, TRITONREPOAGENT_Agent *agent, void *state)
