// SPDX-License-Identifier: Apache-2.0
// The shared memory extensions: status, register, unregister, for system and CUDA memory. Regions
// change in jobs, because unmapping a large one and calls to a GPU's driver may take long.
#include "frontend/common/tensor/shared_memory.h"

#include "frontend/grpc/call/call.h"
#include "frontend/grpc/proto/grpc_service.pb-c.h"
#include "frontend/grpc/service/handlers.h"

static shared_memory *memory_of(const call *c)
{
  return c->server->options.shared_memory;
}

// The name in a request that has only this field; NULL for all regions.
static const char *region_of(const void *request_pointer)
{
  const Inference__SystemSharedMemoryStatusRequest *request = request_pointer;
  return request->name[0] == '\0' ? NULL : request->name;
}

error *grpc_system_shared_memory_status(call *c, const void *request, buffer *json)
{
  return shared_memory_print(memory_of(c), TRITONSERVER_MEMORY_CPU, region_of(request), true, json);
}

error *grpc_cuda_shared_memory_status(call *c, const void *request, buffer *json)
{
  return shared_memory_print(memory_of(c), TRITONSERVER_MEMORY_GPU, region_of(request), true, json);
}

error *grpc_system_shared_memory_register(call *c, const void *request_pointer, buffer *json)
{
  const Inference__SystemSharedMemoryRegisterRequest *request = request_pointer;
  (void)json;
  return shared_memory_register_system(memory_of(c), request->name, request->key, request->offset,
                                       request->byte_size);
}

// Without a GPU the other fields are ignored, as in Triton.
error *grpc_cuda_shared_memory_register(call *c, const void *request_pointer, buffer *json)
{
  const Inference__CudaSharedMemoryRegisterRequest *request = request_pointer;
  (void)json;
  const slice handle = {(const char *)request->raw_handle.data, request->raw_handle.len};
  return shared_memory_register_cuda(memory_of(c), request->name, handle, request->device_id,
                                     request->byte_size);
}

error *grpc_system_shared_memory_unregister(call *c, const void *request, buffer *json)
{
  (void)json;
  return shared_memory_unregister(memory_of(c), TRITONSERVER_MEMORY_CPU, region_of(request));
}

error *grpc_cuda_shared_memory_unregister(call *c, const void *request, buffer *json)
{
  (void)json;
  return shared_memory_unregister(memory_of(c), TRITONSERVER_MEMORY_GPU, region_of(request));
}
