// SPDX-License-Identifier: Apache-2.0
// TRITONBACKEND_Request*, TRITONBACKEND_Input* and the memory manager: a backend reads its request.
// The backend owns the request, so no lock is needed.
#include "api/convert.h"
#include "base/arena.h"
#include "core/gpus.h"
#include "core/model.h"
#include "request/request.h"
#include "request/response_allocator.h"
#include "triton/core/tritonbackend.h"

#include <inttypes.h>

static request *of(TRITONBACKEND_Request *r)
{
  return (request *)r;
}

static TRITONSERVER_Error *out_of_bounds(const TRITONBACKEND_Request *r, const char *what,
                                         uint32_t index, uint32_t count)
{
  return error_to_abi(request_error((const request *)r, ERROR_INVALID_ARG,
                                    "out of bounds index %" PRIu32 ": request has %" PRIu32 " %s",
                                    index, count, what));
}

API_GET(TRITONBACKEND_RequestId, TRITONBACKEND_Request, const char *, of(self)->id.data)
API_GET(TRITONBACKEND_RequestIsCancelled, TRITONBACKEND_Request, bool,
        request_is_cancelled(of(self)))

TRITONSERVER_Error *TRITONBACKEND_RequestCorrelationId(TRITONBACKEND_Request *r, uint64_t *id)
{
  return TRITONSERVER_InferenceRequestCorrelationId(of(r), id);
}

TRITONSERVER_Error *TRITONBACKEND_RequestCorrelationIdString(TRITONBACKEND_Request *r,
                                                             const char **id)
{
  return TRITONSERVER_InferenceRequestCorrelationIdString(of(r), id);
}

API_GET(TRITONBACKEND_InferenceRequestTimeoutMicroseconds, TRITONBACKEND_Request, uint64_t,
        of(self)->timeout_us)
API_GET(TRITONBACKEND_RequestFlags, TRITONBACKEND_Request, uint32_t, of(self)->flags)
API_GET(TRITONBACKEND_RequestParameterCount, TRITONBACKEND_Request, uint32_t,
        of(self)->parameter_count)

TRITONSERVER_Error *TRITONBACKEND_RequestParameter(TRITONBACKEND_Request *r, uint32_t index,
                                                   const char **key,
                                                   TRITONSERVER_ParameterType *type,
                                                   const void **value)
{
  if (index >= of(r)->parameter_count)
    return out_of_bounds(r, "parameters", index, of(r)->parameter_count);
  const parameter *p = &of(r)->parameters[index];
  *key = p->name;
  *type = p->type;
  *value = parameter_value(p);
  return NULL;
}

API_GET(TRITONBACKEND_RequestInputCount, TRITONBACKEND_Request, uint32_t, of(self)->input_count)

TRITONSERVER_Error *TRITONBACKEND_RequestInputName(TRITONBACKEND_Request *r, uint32_t index,
                                                   const char **name)
{
  *name = NULL;
  if (index >= of(r)->input_count)
    return out_of_bounds(r, "inputs", index, of(r)->input_count);
  *name = of(r)->inputs[index].name.data;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestInput(TRITONBACKEND_Request *r, const char *name,
                                               TRITONBACKEND_Input **input)
{
  *input = request_find_input(of(r), name);
  if (*input == NULL)
    return error_to_abi(
        request_error(of(r), ERROR_INVALID_ARG, "unknown request input name %s", name));
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestInputByIndex(TRITONBACKEND_Request *r, uint32_t index,
                                                      TRITONBACKEND_Input **input)
{
  *input = NULL;
  if (index >= of(r)->input_count)
    return out_of_bounds(r, "inputs", index, of(r)->input_count);
  *input = &of(r)->inputs[index];
  return NULL;
}

API_GET(TRITONBACKEND_RequestOutputCount, TRITONBACKEND_Request, uint32_t,
        request_output_count(of(self)))

TRITONSERVER_Error *TRITONBACKEND_RequestOutputName(TRITONBACKEND_Request *r, uint32_t index,
                                                    const char **name)
{
  *name = NULL;
  if (index >= request_output_count(of(r)))
    return out_of_bounds(r, "requested outputs", index, request_output_count(of(r)));
  *name = request_output_name(of(r), index).data;
  return NULL;
}

TRITONSERVER_Error *
TRITONBACKEND_RequestOutputBufferProperties(TRITONBACKEND_Request *r, const char *name,
                                            size_t *byte_size, TRITONSERVER_MemoryType *memory_type,
                                            int64_t *memory_type_id)
{
  response_allocator *allocator = of(r)->allocator;
  if (allocator == NULL || allocator->query == NULL)
    return error_to_abi(
        request_error(of(r), ERROR_UNAVAILABLE, "Output properties are not available"));
  return allocator->query(allocator, of(r)->allocator_context, name, byte_size, memory_type,
                          memory_type_id);
}

TRITONSERVER_Error *TRITONBACKEND_RequestRelease(TRITONBACKEND_Request *r, uint32_t release_flags)
{
  error *e = (release_flags & TRITONSERVER_REQUEST_RELEASE_RESCHEDULE) != 0
                 ? request_check_reschedule(of(r))
                 : NULL;
  if (e == NULL)
    request_release(of(r), release_flags);
  return error_to_abi(e);
}

API_GET(TRITONBACKEND_RequestTrace, TRITONBACKEND_Request, TRITONSERVER_InferenceTrace *,
        of(self)->factory->trace)

TRITONSERVER_Error *TRITONBACKEND_InputProperties(TRITONBACKEND_Input *input, const char **name,
                                                  TRITONSERVER_DataType *type,
                                                  const int64_t **shape, uint32_t *dims_count,
                                                  uint64_t *byte_size, uint32_t *buffer_count)
{
  const request_input *i = input;
  if (name != NULL)
    *name = i->name.data;
  if (type != NULL)
    *type = i->datatype;
  if (shape != NULL)
    *shape = i->dims;
  if (dims_count != NULL)
    *dims_count = i->dim_count;
  if (byte_size != NULL)
    *byte_size = i->data.byte_size;
  if (buffer_count != NULL)
    *buffer_count = i->data.segment_count;
  return NULL;
}

TRITONSERVER_Error *
TRITONBACKEND_InputPropertiesForHostPolicy(TRITONBACKEND_Input *input, const char *host_policy_name,
                                           const char **name, TRITONSERVER_DataType *type,
                                           const int64_t **shape, uint32_t *dims_count,
                                           uint64_t *byte_size, uint32_t *buffer_count)
{
  const input_data *data = request_input_data(input, host_policy_name);
  TRITONSERVER_Error *error =
      TRITONBACKEND_InputProperties(input, name, type, shape, dims_count, byte_size, buffer_count);
  if (byte_size != NULL)
    *byte_size = data->byte_size;
  if (buffer_count != NULL)
    *buffer_count = data->segment_count;
  return error;
}

// Backends ask for the first buffer of a tensor without elements too: an index past the last gives
// an empty buffer.
static input_segment segment_at(const input_data *data, uint32_t index)
{
  return index < data->segment_count ? data->segments[index] : (input_segment){.base = NULL};
}

TRITONSERVER_Error *TRITONBACKEND_InputBuffer(TRITONBACKEND_Input *input, uint32_t index,
                                              const void **buffer, uint64_t *buffer_byte_size,
                                              TRITONSERVER_MemoryType *memory_type,
                                              int64_t *memory_type_id)
{
  return TRITONBACKEND_InputBufferForHostPolicy(input, NULL, index, buffer, buffer_byte_size,
                                                memory_type, memory_type_id);
}

TRITONSERVER_Error *TRITONBACKEND_InputBufferForHostPolicy(
    TRITONBACKEND_Input *input, const char *host_policy_name, uint32_t index, const void **buffer,
    uint64_t *buffer_byte_size, TRITONSERVER_MemoryType *memory_type, int64_t *memory_type_id)
{
  const input_segment segment = segment_at(request_input_data(input, host_policy_name), index);
  *buffer = segment.base;
  *buffer_byte_size = segment.size;
  *memory_type = segment.memory_type;
  *memory_type_id = segment.memory_type_id;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_InputBufferAttributes(TRITONBACKEND_Input *input, uint32_t index,
                                                        const void **buffer,
                                                        TRITONSERVER_BufferAttributes **attributes)
{
  request_input *i = input;
  const input_segment segment = segment_at(&i->data, index);
  i->attributes = (buffer_attributes){.byte_size = segment.size,
                                      .memory_type = segment.memory_type,
                                      .memory_type_id = segment.memory_type_id};
  if (segment.attributes != NULL)
    i->attributes = *segment.attributes;
  *buffer = segment.base;
  *attributes = &i->attributes;
  return NULL;
}

// The memory manager is the model_environment.
static gpus *gpus_of(TRITONBACKEND_MemoryManager *manager)
{
  return ((const model_environment *)manager)->gpus;
}

static TRITONSERVER_Error *find_place(TRITONSERVER_MemoryType type, int64_t id, gpu_place *place)
{
  _Static_assert((int)GPU_MEMORY_HOST == (int)TRITONSERVER_MEMORY_CPU &&
                     (int)GPU_MEMORY_PINNED == (int)TRITONSERVER_MEMORY_CPU_PINNED &&
                     (int)GPU_MEMORY_DEVICE == (int)TRITONSERVER_MEMORY_GPU,
                 "the kinds of memory are the ABI's");
  if ((unsigned)type > TRITONSERVER_MEMORY_GPU)
    return error_to_abi(error_new(ERROR_INVALID_ARG, "unknown memory type '%d'", (int)type));
  *place = (gpu_place){(gpu_memory_kind)type, id == (int)id ? (int)id : -1};
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_MemoryManagerAllocate(TRITONBACKEND_MemoryManager *manager,
                                                        void **buffer,
                                                        TRITONSERVER_MemoryType memory_type,
                                                        int64_t memory_type_id, uint64_t byte_size)
{
  gpu_place place;
  *buffer = NULL;
  TRITONSERVER_Error *error = find_place(memory_type, memory_type_id, &place);
  return error != NULL ? error
                       : error_to_abi(gpus_take(gpus_of(manager), place, byte_size, buffer));
}

TRITONSERVER_Error *TRITONBACKEND_MemoryManagerFree(TRITONBACKEND_MemoryManager *manager,
                                                    void *buffer,
                                                    TRITONSERVER_MemoryType memory_type,
                                                    int64_t memory_type_id)
{
  gpu_place place;
  gpus *g = gpus_of(manager);
  TRITONSERVER_Error *error = find_place(memory_type, memory_type_id, &place);
  if (error != NULL)
    return error;
  if (place.kind != GPU_MEMORY_HOST && !gpus_owns(g, place, buffer))
    return error_to_abi(
        error_new(ERROR_INTERNAL, "unexpected memory address '%p' is not being managed", buffer));
  gpus_give_back(g, place, buffer);
  return NULL;
}
