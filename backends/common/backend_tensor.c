// Buffers, gathering and outputs; see backend_tensor.h.
#include "backend_tensor.h"

#include "backend_error.h"
#include "nereid/nereid.h"

#include <stdlib.h>
#include <string.h>

// Only nereid has it.
extern __typeof__(NEREID_ResponseUnconfiguredOutput) NEREID_ResponseUnconfiguredOutput
    __attribute__((weak));

#define BUFFER_ALIGNMENT 64

// Makes room for `size` bytes; the old contents are gone.
static TRITONSERVER_Error *reserve(backend_buffer *buffer, size_t size)
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

static TRITONSERVER_Error *read_piece(const backend_input *input, uint32_t index, const void **data,
                                      uint64_t *byte_size)
{
  TRITONSERVER_MemoryType memory_type = TRITONSERVER_MEMORY_CPU;
  int64_t memory_type_id = 0;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_InputBufferForHostPolicy(
      input->input, input->host_policy, index, data, byte_size, &memory_type, &memory_type_id));
  if (memory_type == TRITONSERVER_MEMORY_GPU)
    return backend_error(TRITONSERVER_ERROR_UNSUPPORTED,
                         "input '%s' is in GPU memory, this backend reads CPU memory only",
                         input->name);
  return NULL;
}

// The input's bytes where they are, when they are one piece of CPU memory aligned to `alignment`;
// else `*data` is NULL. An input without bytes gives a pointer that must not be read.
static TRITONSERVER_Error *peek(const backend_input *input, size_t alignment, const void **data)
{
  static const _Alignas(BUFFER_ALIGNMENT) char nothing[1];
  *data = NULL;
  if (input->byte_size == 0) {
    *data = nothing;
    return NULL;
  }
  if (input->buffer_count != 1)
    return NULL;
  const void *piece = NULL;
  uint64_t byte_size = 0;
  BACKEND_RETURN_IF_ERROR(read_piece(input, 0, &piece, &byte_size));
  if (byte_size == input->byte_size && (uintptr_t)piece % alignment == 0)
    *data = piece;
  return NULL;
}

TRITONSERVER_Error *backend_input_copy(const backend_input *input, void *destination)
{
  uint64_t copied = 0;
  for (uint32_t i = 0; i < input->buffer_count; i++) {
    const void *piece = NULL;
    uint64_t byte_size = 0;
    BACKEND_RETURN_IF_ERROR(read_piece(input, i, &piece, &byte_size));
    if (byte_size > input->byte_size - copied)
      return backend_error_invalid("buffer size for input '%s' exceeds batch byte size %llu",
                                   input->name, (unsigned long long)input->byte_size);
    if (byte_size > 0)
      memcpy((char *)destination + copied, piece, byte_size);
    copied += byte_size;
  }
  if (copied != input->byte_size)
    return backend_error_internal("input '%s' has %llu bytes in its buffers, %llu were announced",
                                  input->name, (unsigned long long)copied,
                                  (unsigned long long)input->byte_size);
  return NULL;
}

// How many requests have the input, which is the first, and how many bytes are there?
static uint32_t measure(const backend_batch *batch, const backend_input *inputs, uint32_t *first,
                        size_t *byte_size)
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
  uint32_t present = measure(batch, inputs, &first, byte_size);
  if (present == 1) {
    BACKEND_RETURN_IF_ERROR(peek(&inputs[first], alignment, data));
    if (*data != NULL)
      return NULL;
  }
  BACKEND_RETURN_IF_ERROR(reserve(buffer, *byte_size));
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

TRITONSERVER_Error *backend_output_new(TRITONBACKEND_Response *response, const char *name,
                                       TRITONSERVER_DataType datatype, const int64_t *dims,
                                       uint32_t rank, size_t byte_size, void **data)
{
  TRITONBACKEND_Output *output;
  BACKEND_RETURN_IF_ERROR(
      TRITONBACKEND_ResponseOutput(response, &output, name, datatype, dims, rank));
  TRITONSERVER_MemoryType memory_type = TRITONSERVER_MEMORY_CPU;
  int64_t memory_type_id = 0;
  BACKEND_RETURN_IF_ERROR(
      TRITONBACKEND_OutputBuffer(output, data, byte_size, &memory_type, &memory_type_id));
  if (memory_type == TRITONSERVER_MEMORY_GPU)
    return backend_error(TRITONSERVER_ERROR_UNSUPPORTED,
                         "output '%s' was given GPU memory, this backend writes CPU memory only",
                         name);
  return NULL;
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
    // Clients mostly ask in the model's order, so start where the last one was found.
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
