// SPDX-License-Identifier: Apache-2.0
// TRITONBACKEND_State*: a backend writes the next state of its request's sequence. On the backend's
// thread; the states belong to the request, so no lock is needed.
#include "api/convert.h"
#include "request/sequence_state.h"
#include "triton/core/tritonbackend.h"

TRITONSERVER_Error *TRITONBACKEND_StateNew(TRITONBACKEND_State **state, TRITONBACKEND_Request *r,
                                           const char *name, TRITONSERVER_DataType datatype,
                                           const int64_t *shape, uint32_t dims_count)
{
  return error_to_abi(state_tensor_find((request *)r, name, datatype, shape, dims_count, state));
}

TRITONSERVER_Error *TRITONBACKEND_StateUpdate(TRITONBACKEND_State *state)
{
  return error_to_abi(state_tensor_update(state));
}

TRITONSERVER_Error *TRITONBACKEND_StateBuffer(TRITONBACKEND_State *state, void **buffer,
                                              uint64_t buffer_byte_size,
                                              TRITONSERVER_MemoryType *memory_type,
                                              int64_t *memory_type_id)
{
  return error_to_abi(
      state_tensor_allocate(state, buffer_byte_size, memory_type, memory_type_id, buffer));
}

API_GET(TRITONBACKEND_StateBufferAttributes, TRITONBACKEND_State, TRITONSERVER_BufferAttributes *,
        &self->attributes)
