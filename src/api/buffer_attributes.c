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

TRITONSERVER_Error *
TRITONSERVER_BufferAttributesSetMemoryTypeId(TRITONSERVER_BufferAttributes *attributes,
                                             int64_t memory_type_id)
{
  attributes->memory_type_id = memory_type_id;
  return NULL;
}

TRITONSERVER_Error *
TRITONSERVER_BufferAttributesSetMemoryType(TRITONSERVER_BufferAttributes *attributes,
                                           TRITONSERVER_MemoryType memory_type)
{
  attributes->memory_type = memory_type;
  return NULL;
}

TRITONSERVER_Error *
TRITONSERVER_BufferAttributesSetCudaIpcHandle(TRITONSERVER_BufferAttributes *attributes,
                                              void *cuda_ipc_handle)
{
  memcpy(attributes->cuda_ipc_handle, cuda_ipc_handle, CUDA_IPC_HANDLE_BYTES);
  attributes->has_cuda_ipc_handle = true;
  return NULL;
}

TRITONSERVER_Error *
TRITONSERVER_BufferAttributesSetByteSize(TRITONSERVER_BufferAttributes *attributes,
                                         size_t byte_size)
{
  attributes->byte_size = byte_size;
  return NULL;
}

TRITONSERVER_Error *
TRITONSERVER_BufferAttributesMemoryTypeId(TRITONSERVER_BufferAttributes *attributes,
                                          int64_t *memory_type_id)
{
  *memory_type_id = attributes->memory_type_id;
  return NULL;
}

TRITONSERVER_Error *
TRITONSERVER_BufferAttributesMemoryType(TRITONSERVER_BufferAttributes *attributes,
                                        TRITONSERVER_MemoryType *memory_type)
{
  *memory_type = attributes->memory_type;
  return NULL;
}

TRITONSERVER_Error *
TRITONSERVER_BufferAttributesCudaIpcHandle(TRITONSERVER_BufferAttributes *attributes,
                                           void **cuda_ipc_handle)
{
  *cuda_ipc_handle = attributes->has_cuda_ipc_handle ? attributes->cuda_ipc_handle : NULL;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_BufferAttributesByteSize(TRITONSERVER_BufferAttributes *attributes,
                                                          size_t *byte_size)
{
  *byte_size = attributes->byte_size;
  return NULL;
}
