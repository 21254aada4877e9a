// SPDX-License-Identifier: Apache-2.0
// The functions that provide output memory. A front end makes them, and all its requests share
// them. Constant once in use: every instance's thread reads them without a lock.
#ifndef NEREID_REQUEST_RESPONSE_ALLOCATOR_H
#define NEREID_REQUEST_RESPONSE_ALLOCATOR_H

#include "triton/core/tritonserver.h"

typedef struct TRITONSERVER_ResponseAllocator response_allocator;

struct TRITONSERVER_ResponseAllocator {
  TRITONSERVER_ResponseAllocatorAllocFn_t allocate;
  TRITONSERVER_ResponseAllocatorReleaseFn_t release;
  TRITONSERVER_ResponseAllocatorStartFn_t start;                        // may be NULL
  TRITONSERVER_ResponseAllocatorQueryFn_t query;                        // may be NULL
  TRITONSERVER_ResponseAllocatorBufferAttributesFn_t buffer_attributes; // may be NULL
};

#endif
