// SPDX-License-Identifier: Apache-2.0
// Memory for answers from malloc: the functions of a TRITONSERVER_ResponseAllocator, for the
// programs here that embed the server.
#ifndef NEREID_TESTS_ABI_PLAIN_MEMORY_H
#define NEREID_TESTS_ABI_PLAIN_MEMORY_H

#include "triton/core/tritonserver.h"

#include <stdlib.h>

static TRITONSERVER_Error *allocate(TRITONSERVER_ResponseAllocator *allocator, const char *name,
                                    size_t size, TRITONSERVER_MemoryType type, int64_t id,
                                    void *context, void **buffer, void **buffer_context,
                                    TRITONSERVER_MemoryType *actual_type, int64_t *actual_id)
{
  (void)allocator, (void)name, (void)type, (void)id, (void)context;
  *buffer = malloc(size + 1);
  *buffer_context = NULL;
  *actual_type = TRITONSERVER_MEMORY_CPU;
  *actual_id = 0;
  return NULL;
}

static TRITONSERVER_Error *give_back(TRITONSERVER_ResponseAllocator *allocator, void *buffer,
                                     void *buffer_context, size_t size,
                                     TRITONSERVER_MemoryType type, int64_t id)
{
  (void)allocator, (void)buffer_context, (void)size, (void)type, (void)id;
  free(buffer);
  return NULL;
}

#endif
