// SPDX-License-Identifier: Apache-2.0
// Size and place of a buffer. A value: requests, responses and cache entries embed it.
#ifndef NEREID_REQUEST_BUFFER_ATTRIBUTES_H
#define NEREID_REQUEST_BUFFER_ATTRIBUTES_H

#include "triton/core/tritonserver.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CUDA_IPC_HANDLE_BYTES 64 // sizeof(cudaIpcMemHandle_t)

typedef struct TRITONSERVER_BufferAttributes buffer_attributes;

// All zeros is an empty buffer in CPU memory, id 0.
struct TRITONSERVER_BufferAttributes {
  size_t byte_size;
  TRITONSERVER_MemoryType memory_type;
  bool has_cuda_ipc_handle;
  int64_t memory_type_id;
  char cuda_ipc_handle[CUDA_IPC_HANDLE_BYTES];
};

#endif
