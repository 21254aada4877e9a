// SPDX-License-Identifier: Apache-2.0
// A device's stream and memory.
#include "backend_device.h"

#include "backend_error.h"
#include "backend_log.h"
#include "gpu/health.h"

#include <stdlib.h>

static TRITONSERVER_Error *find_manager(TRITONBACKEND_ModelInstance *instance,
                                        TRITONBACKEND_MemoryManager **manager)
{
  TRITONBACKEND_Model *model;
  TRITONBACKEND_Backend *backend;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceModel(instance, &model));
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelBackend(model, &backend));
  return TRITONBACKEND_BackendMemoryManager(backend, manager);
}

TRITONSERVER_Error *backend_device_new(TRITONBACKEND_ModelInstance *instance,
                                       backend_device **device)
{
  TRITONSERVER_InstanceGroupKind kind;
  int32_t ordinal;
  *device = NULL;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceKind(instance, &kind));
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceDeviceId(instance, &ordinal));
  if (kind != TRITONSERVER_INSTANCEGROUPKIND_GPU)
    return NULL;
  backend_device *made = calloc(1, sizeof(*made));
  if (made == NULL)
    return backend_error_no_memory("a model instance");
  made->ordinal = ordinal;
  TRITONSERVER_Error *error = find_manager(instance, &made->manager);
  if (error == NULL)
    error = backend_error_of(gpu_stream_new(ordinal, 0, &made->stream));
  if (error == NULL)
    *device = made;
  else
    backend_device_free(made);
  return error;
}

void backend_device_free(backend_device *device)
{
  if (device == NULL)
    return;
  gpu_stream_free(device->stream);
  gpu_pool_free(device->spare);
  free(device);
}

static bool take_of_server(backend_device *self, TRITONSERVER_MemoryType type, int64_t id,
                           size_t bytes, void **memory)
{
  TRITONSERVER_Error *error =
      TRITONBACKEND_MemoryManagerAllocate(self->manager, memory, type, id, bytes);
  if (error != NULL) {
    self->no_pools = TRITONSERVER_ErrorCode(error) == TRITONSERVER_ERROR_UNSUPPORTED;
    *memory = NULL;
  }
  TRITONSERVER_ErrorDelete(error);
  return *memory != NULL;
}

// The only driver call for memory while a request waits; the memory is kept for later requests.
static error *grow_spare(backend_device *self, size_t bytes)
{
  if (!self->no_pools)
    BACKEND_LOG_WARN("the CUDA memory pool of GPU %d has no room for a tensor of %zu bytes: memory "
                     "of the backend's own is used (--cuda-memory-pool-byte-size=%d:<bytes>)",
                     self->ordinal, bytes, self->ordinal);
  if (self->spare != NULL)
    return gpu_pool_grow(self->spare, bytes);
  return gpu_pool_new(backend_device_place(self), bytes, &self->spare);
}

static error *take_spare(backend_device *self, size_t bytes, void **memory)
{
  *memory = NULL;
  if (self->spare != NULL)
    RETURN_IF_ERROR(gpu_pool_take(self->spare, bytes, memory));
  if (*memory != NULL)
    return NULL;
  RETURN_IF_ERROR(grow_spare(self, bytes));
  RETURN_IF_ERROR(gpu_pool_take(self->spare, bytes, memory));
  return *memory != NULL ? NULL : error_no_memory();
}

TRITONSERVER_Error *backend_device_take(backend_device *self, size_t bytes, backend_block *block)
{
  *block = (backend_block){.kind = GPU_MEMORY_DEVICE};
  if (take_of_server(self, TRITONSERVER_MEMORY_GPU, self->ordinal, bytes, &block->memory))
    return NULL;
  block->is_spare = true;
  return backend_error_of(take_spare(self, bytes, &block->memory));
}

backend_block backend_device_take_pinned(backend_device *self, size_t bytes)
{
  backend_block block = {.kind = GPU_MEMORY_PINNED};
  take_of_server(self, TRITONSERVER_MEMORY_CPU_PINNED, 0, bytes, &block.memory);
  return block;
}

void backend_device_give_back(backend_device *self, const backend_block *block)
{
  bool on_device = block->kind == GPU_MEMORY_DEVICE;
  if (block->memory == NULL)
    return;
  if (block->is_spare)
    gpu_pool_give_back(self->spare, block->memory);
  else
    backend_error_log(TRITONBACKEND_MemoryManagerFree(self->manager, block->memory,
                                                      on_device ? TRITONSERVER_MEMORY_GPU
                                                                : TRITONSERVER_MEMORY_CPU_PINNED,
                                                      on_device ? self->ordinal : 0),
                      "give memory back");
}

bool backend_device_fault(const backend_device *self, char *text, size_t size)
{
  if (self == NULL)
    return false;
  // A lost device that still exists may still use the memory.
  if (!gpu_health_is_gone(self->ordinal) && !gpu_health_is_dead(self->ordinal))
    return false;
  gpu_health_text(self->ordinal, text, size);
  return true;
}
