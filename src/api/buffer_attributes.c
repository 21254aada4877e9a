// SPDX-License-Identifier: Apache-2.0
// TRITONSERVER_BufferAttributes*: size and place of a buffer. One thread at a time.
#include "request/buffer_attributes.h"

#include "api/convert.h"

#include <stdlib.h>
#include <string.h>

TRITONSERVER_Error *TRITONSERVER_BufferAttributesNew(TRITONSERVER_BufferAttributes **attributes)
{
  *attributes = calloc(1, sizeof(**attributes));
  return *attributes != NULL ? NULL : error_to_abi(error_no_memory());
}

TRITONSERVER_Error *TRITONSERVER_BufferAttributesDelete(TRITONSERVER_BufferAttributes *attributes)
{
  free(attributes);
  return NULL;
}

API_SET(TRITONSERVER_BufferAttributesSetMemoryTypeId, TRITONSERVER_BufferAttributes, int64_t,
        memory_type_id)
API_SET(TRITONSERVER_BufferAttributesSetMemoryType, TRITONSERVER_BufferAttributes,
        TRITONSERVER_MemoryType, memory_type)

TRITONSERVER_Error *
TRITONSERVER_BufferAttributesSetCudaIpcHandle(TRITONSERVER_BufferAttributes *attributes,
                                              void *cuda_ipc_handle)
{
  memcpy(attributes->cuda_ipc_handle, cuda_ipc_handle, CUDA_IPC_HANDLE_BYTES);
  attributes->has_cuda_ipc_handle = true;
  return NULL;
}

API_SET(TRITONSERVER_BufferAttributesSetByteSize, TRITONSERVER_BufferAttributes, size_t, byte_size)
API_GET(TRITONSERVER_BufferAttributesMemoryTypeId, TRITONSERVER_BufferAttributes, int64_t,
        self->memory_type_id)
API_GET(TRITONSERVER_BufferAttributesMemoryType, TRITONSERVER_BufferAttributes,
        TRITONSERVER_MemoryType, self->memory_type)
API_GET(TRITONSERVER_BufferAttributesCudaIpcHandle, TRITONSERVER_BufferAttributes, void *,
        self->has_cuda_ipc_handle ? self->cuda_ipc_handle : NULL)
API_GET(TRITONSERVER_BufferAttributesByteSize, TRITONSERVER_BufferAttributes, size_t,
        self->byte_size)
