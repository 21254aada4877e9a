// SPDX-License-Identifier: Apache-2.0
// Buffers, gathering and outputs.
#include "backend_tensor.h"

#include "backend_copy.h"
#include "backend_error.h"
#include "nereid/nereid.h"

#include <stdlib.h>
#include <string.h>

// Only nereid has this function.
extern __typeof__(NEREID_ResponseUnconfiguredOutput) NEREID_ResponseUnconfiguredOutput
    __attribute__((weak));

#define BUFFER_ALIGNMENT 64

static const gpu_place host = {.kind = GPU_MEMORY_HOST};

static inline gpu_place place_of(TRITONSERVER_MemoryType type, int64_t id)
{
  return (gpu_place){.kind = (gpu_memory_kind)type, .device = (int)id};
}

TRITONSERVER_Error *backend_buffer_reserve(backend_buffer *buffer, size_t size)
{
  if (size <= buffer->capacity && buffer->data != NULL)
    return NULL;
  size_t rounded;
  if (__builtin_add_overflow(size, 2 * BUFFER_ALIGNMENT - 1, &rounded))
    return backend_error_no_memory("an input");
  rounded -= rounded % BUFFER_ALIGNMENT;
  backend_buffer_fini(buffer);
  buffer->data = aligned_alloc(BUFFER_ALIGNMENT, rounded);
  if (buffer->data == NULL)
    return backend_error_unavailable("no memory for %zu bytes of input", size);
  buffer->capacity = rounded;
  return NULL;
}

void backend_buffer_trim(backend_buffer *buffer, size_t keep)
{
  if (buffer->capacity > keep)
    backend_buffer_fini(buffer);
}

void backend_buffer_fini(backend_buffer *buffer)
{
  free(buffer->data);
  *buffer = (backend_buffer){0};
}

TRITONSERVER_Error *backend_input_find(TRITONBACKEND_Request *request, const char *name,
                                       const char *host_policy, backend_input *input)
{
  *input = (backend_input){0};
  TRITONBACKEND_Input *found;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_RequestInput(request, name, &found));
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_InputPropertiesForHostPolicy(
      found, host_policy, &input->name, &input->datatype, &input->dims, &input->rank,
      &input->byte_size, &input->buffer_count));
  input->host_policy = host_policy;
  size_t expected;
  if (!backend_element_count(input->dims, input->rank, &input->element_count) ||
      __builtin_mul_overflow(input->element_count,
                             (size_t)TRITONSERVER_DataTypeByteSize(input->datatype), &expected))
    return backend_error_invalid("input '%s' has an impossible shape", name);
  if (input->datatype != TRITONSERVER_TYPE_BYTES && expected != input->byte_size)
    return backend_error_invalid("input '%s' has %llu bytes, its shape needs %zu", name,
                                 (unsigned long long)input->byte_size, expected);
  input->input = found;
  return NULL;
}

TRITONSERVER_Error *backend_input_piece(const backend_input *input, uint32_t index, uint64_t before,
                                        backend_piece *piece)
{
  TRITONSERVER_MemoryType memory_type = TRITONSERVER_MEMORY_CPU;
  int64_t memory_type_id = 0;
  BACKEND_RETURN_IF_ERROR(
      TRITONBACKEND_InputBufferForHostPolicy(input->input, input->host_policy, index, &piece->data,
                                             &piece->byte_size, &memory_type, &memory_type_id));
  piece->place = place_of(memory_type, memory_type_id);
  if (piece->byte_size > input->byte_size - before)
    return backend_error_invalid("buffer size for input '%s' exceeds batch byte size %llu",
                                 input->name, (unsigned long long)input->byte_size);
  return NULL;
}

TRITONSERVER_Error *backend_input_complete(const backend_input *input, uint64_t copied)
{
  if (copied == input->byte_size)
    return NULL;
  return backend_error_internal("input '%s' has %llu bytes in its buffers, %llu were announced",
                                input->name, (unsigned long long)copied,
                                (unsigned long long)input->byte_size);
}

// Sets `*data` to the input's bytes if they are one piece of CPU memory aligned to `alignment`,
// else to NULL. An input without bytes gives a pointer that must not be read.
static TRITONSERVER_Error *peek(const backend_input *input, size_t alignment, const void **data)
{
  static const _Alignas(BUFFER_ALIGNMENT) char nothing[1];
  backend_piece piece;
  *data = NULL;
  if (input->byte_size == 0) {
    *data = nothing;
    return NULL;
  }
  if (input->buffer_count != 1)
    return NULL;
  BACKEND_RETURN_IF_ERROR(backend_input_piece(input, 0, 0, &piece));
  if (piece.place.kind != GPU_MEMORY_DEVICE && piece.byte_size == input->byte_size &&
      (uintptr_t)piece.data % alignment == 0)
    *data = piece.data;
  return NULL;
}

// Copies `bytes` (above 0) and waits for the end.
static inline TRITONSERVER_Error *copy(void *to, gpu_place to_place, const void *from,
                                       gpu_place from_place, size_t bytes, const char *name)
{
  if (from_place.kind == GPU_MEMORY_DEVICE || to_place.kind == GPU_MEMORY_DEVICE)
    return backend_copy_now(to, to_place, from, from_place, bytes, name);
  memcpy(to, from, bytes);
  return NULL;
}

TRITONSERVER_Error *backend_input_copy_to(const backend_input *input, backend_room destination)
{
  uint64_t copied = 0;
  for (uint32_t i = 0; i < input->buffer_count; i++) {
    backend_piece piece;
    BACKEND_RETURN_IF_ERROR(backend_input_piece(input, i, copied, &piece));
    if (piece.byte_size > 0)
      BACKEND_RETURN_IF_ERROR(copy((char *)destination.data + copied, destination.place, piece.data,
                                   piece.place, piece.byte_size, input->name));
    copied += piece.byte_size;
  }
  return backend_input_complete(input, copied);
}

TRITONSERVER_Error *backend_input_copy(const backend_input *input, void *destination)
{
  return backend_input_copy_to(input, (backend_room){destination, host});
}

uint32_t backend_inputs_measure(const backend_batch *batch, const backend_input *inputs,
                                uint32_t *first, size_t *byte_size)
{
  uint32_t present = 0;
  *byte_size = 0;
  for (uint32_t i = 0; i < batch->count; i++) {
    if (inputs[i].input == NULL)
      continue;
    if (present++ == 0)
      *first = i;
    *byte_size += inputs[i].byte_size;
  }
  return present;
}

TRITONSERVER_Error *backend_gather(backend_batch *batch, const backend_input *inputs,
                                   size_t alignment, backend_buffer *buffer, const void **data,
                                   size_t *byte_size)
{
  uint32_t first = 0;
  uint32_t present = backend_inputs_measure(batch, inputs, &first, byte_size);
  if (present == 1) {
    BACKEND_RETURN_IF_ERROR(peek(&inputs[first], alignment, data));
    if (*data != NULL)
      return NULL;
  }
  BACKEND_RETURN_IF_ERROR(backend_buffer_reserve(buffer, *byte_size));
  char *to = buffer->data;
  *data = to;
  for (uint32_t i = 0; i < batch->count; i++) {
    if (inputs[i].input == NULL)
      continue;
    TRITONSERVER_Error *error = backend_input_copy(&inputs[i], to);
    if (error != NULL) {
      memset(to, 0, inputs[i].byte_size);
      backend_batch_fail(batch, i, error);
    }
    to += inputs[i].byte_size;
  }
  return NULL;
}

TRITONSERVER_Error *backend_output_ask(TRITONBACKEND_Response *response, const char *name,
                                       TRITONSERVER_DataType datatype, const int64_t *dims,
                                       uint32_t rank, size_t byte_size, gpu_place preferred,
                                       backend_room *room)
{
  TRITONBACKEND_Output *output;
  TRITONSERVER_MemoryType memory_type = (TRITONSERVER_MemoryType)preferred.kind;
  int64_t memory_type_id = preferred.device;
  BACKEND_RETURN_IF_ERROR(
      TRITONBACKEND_ResponseOutput(response, &output, name, datatype, dims, rank));
  BACKEND_RETURN_IF_ERROR(
      TRITONBACKEND_OutputBuffer(output, &room->data, byte_size, &memory_type, &memory_type_id));
  room->place = place_of(memory_type, memory_type_id);
  return NULL;
}

TRITONSERVER_Error *backend_state_ask(TRITONBACKEND_Request *request, const char *name,
                                      TRITONSERVER_DataType datatype, const int64_t *dims,
                                      uint32_t rank, size_t byte_size, gpu_place preferred,
                                      TRITONBACKEND_State **state, backend_room *room)
{
  TRITONSERVER_MemoryType memory_type = (TRITONSERVER_MemoryType)preferred.kind;
  int64_t memory_type_id = preferred.device;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_StateNew(state, request, name, datatype, dims, rank));
  BACKEND_RETURN_IF_ERROR(
      TRITONBACKEND_StateBuffer(*state, &room->data, byte_size, &memory_type, &memory_type_id));
  room->place = place_of(memory_type, memory_type_id);
  return NULL;
}

// Gives the host memory to write to when the output is on a GPU.
static TRITONSERVER_Error *stage(backend_output *output)
{
  output->data = output->room.data;
  if (output->room.place.kind != GPU_MEMORY_DEVICE)
    return NULL;
  output->data = malloc(output->byte_size + 1);
  return output->data != NULL ? NULL : backend_error_no_memory("an output");
}

TRITONSERVER_Error *backend_output_open(TRITONBACKEND_Response *response, const char *name,
                                        TRITONSERVER_DataType datatype, const int64_t *dims,
                                        uint32_t rank, size_t byte_size, backend_output *output)
{
  *output = (backend_output){.name = name, .byte_size = byte_size};
  BACKEND_RETURN_IF_ERROR(
      backend_output_ask(response, name, datatype, dims, rank, byte_size, host, &output->room));
  return stage(output);
}

TRITONSERVER_Error *backend_state_open(TRITONBACKEND_Request *request, const char *name,
                                       TRITONSERVER_DataType datatype, const int64_t *dims,
                                       uint32_t rank, size_t byte_size, TRITONBACKEND_State **state,
                                       backend_output *output)
{
  *output = (backend_output){.name = name, .byte_size = byte_size};
  BACKEND_RETURN_IF_ERROR(backend_state_ask(request, name, datatype, dims, rank, byte_size, host,
                                            state, &output->room));
  return stage(output);
}

TRITONSERVER_Error *backend_output_close(backend_output *output)
{
  TRITONSERVER_Error *error = NULL;
  if (output->data == output->room.data)
    return NULL;
  if (output->byte_size > 0)
    error = copy(output->room.data, output->room.place, output->data, host, output->byte_size,
                 output->name);
  backend_output_drop(output);
  return error;
}

void backend_output_drop(backend_output *output)
{
  if (output->data != output->room.data)
    free(output->data);
  output->data = output->room.data = NULL;
}

TRITONSERVER_Error *backend_output_leave_out(TRITONBACKEND_Response *response, const char *name)
{
  if (NEREID_ResponseUnconfiguredOutput == NULL)
    return NULL;
  return NEREID_ResponseUnconfiguredOutput(response, name);
}

TRITONSERVER_Error *backend_outputs_wanted(TRITONBACKEND_Request *request, const char *const *names,
                                           size_t name_count, bool *wanted)
{
  memset(wanted, 0, name_count * sizeof(*wanted));
  uint32_t count = 0;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_RequestOutputCount(request, &count));
  for (uint32_t i = 0; i < count; i++) {
    const char *name = NULL;
    BACKEND_RETURN_IF_ERROR(TRITONBACKEND_RequestOutputName(request, i, &name));
    // Clients mostly ask in the model's order, so the search starts after the previous match.
    for (size_t step = 0; step < name_count; step++) {
      size_t candidate = (i + step) % name_count;
      if (strcmp(names[candidate], name) == 0) {
        wanted[candidate] = true;
        break;
      }
    }
  }
  return NULL;
}
