// SPDX-License-Identifier: Apache-2.0
// TRITONSERVER_ResponseAllocator*: a program makes one before its first request, on one thread.
#include "request/response_allocator.h"

#include "api/convert.h"

#include <stdlib.h>

TRITONSERVER_Error *
TRITONSERVER_ResponseAllocatorNew(TRITONSERVER_ResponseAllocator **allocator,
                                  TRITONSERVER_ResponseAllocatorAllocFn_t alloc_fn,
                                  TRITONSERVER_ResponseAllocatorReleaseFn_t release_fn,
                                  TRITONSERVER_ResponseAllocatorStartFn_t start_fn)
{
  response_allocator *made = malloc(sizeof(*made));
  if (made == NULL)
    return error_to_abi(error_no_memory());
  *made = (response_allocator){.allocate = alloc_fn, .release = release_fn, .start = start_fn};
  *allocator = made;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_ResponseAllocatorSetBufferAttributesFunction(
    TRITONSERVER_ResponseAllocator *allocator,
    TRITONSERVER_ResponseAllocatorBufferAttributesFn_t buffer_attributes_fn)
{
  allocator->buffer_attributes = buffer_attributes_fn;
  return NULL;
}

API_SET(TRITONSERVER_ResponseAllocatorSetQueryFunction, TRITONSERVER_ResponseAllocator,
        TRITONSERVER_ResponseAllocatorQueryFn_t, query)

TRITONSERVER_Error *TRITONSERVER_ResponseAllocatorDelete(TRITONSERVER_ResponseAllocator *allocator)
{
  free(allocator);
  return NULL;
}
