// SPDX-License-Identifier: Apache-2.0
// Reads the requests through the ABI; an unreadable request fails the batch.
#include "batch.h"

#include "backend_copy.h"
#include "backend_error.h"
#include "base/checked.h"
#include "isolated/isolated_protocol.h"

#include <string.h>

// The bytes of an input, and their place in the block.
typedef struct piece {
  TRITONBACKEND_Input *input;
  size_t place;
  uint32_t buffers;
} piece;

void batch_writer_fini(batch_writer *self)
{
  buffer_fini(&self->control);
  buffer_fini(&self->pieces);
}

static void put_u8(buffer *to, uint8_t value)
{
  buffer_append(to, &value, sizeof(value));
}

static void put_u32(buffer *to, uint32_t value)
{
  buffer_append(to, &value, sizeof(value));
}

static void put_u64(buffer *to, uint64_t value)
{
  buffer_append(to, &value, sizeof(value));
}

static void put_text(buffer *to, const char *text)
{
  size_t size = strlen(text) + 1;
  put_u32(to, (uint32_t)size);
  buffer_append(to, text, size);
}

// The ABI does not give the length of a BYTES parameter, so it is left out.
static TRITONSERVER_Error *put_parameters(buffer *to, TRITONBACKEND_Request *request)
{
  uint32_t count, put = 0;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_RequestParameterCount(request, &count));
  size_t at = to->size;
  put_u32(to, 0);
  for (uint32_t i = 0; i < count; i++) {
    const char *name;
    TRITONSERVER_ParameterType type;
    const void *value;
    BACKEND_RETURN_IF_ERROR(TRITONBACKEND_RequestParameter(request, i, &name, &type, &value));
    if (type == TRITONSERVER_PARAMETER_BYTES)
      continue;
    put++;
    put_text(to, name);
    put_u8(to, (uint8_t)type);
    if (type == TRITONSERVER_PARAMETER_STRING)
      put_text(to, value);
    else if (type == TRITONSERVER_PARAMETER_BOOL)
      put_u64(to, *(const bool *)value);
    else
      buffer_append(to, value, sizeof(uint64_t));
  }
  if (!to->failed)
    memcpy(to->data + at, &put, sizeof(put));
  return NULL;
}

static TRITONSERVER_Error *put_outputs(buffer *to, TRITONBACKEND_Request *request)
{
  uint32_t count;
  const char *name;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_RequestOutputCount(request, &count));
  put_u32(to, count);
  for (uint32_t i = 0; i < count; i++) {
    BACKEND_RETURN_IF_ERROR(TRITONBACKEND_RequestOutputName(request, i, &name));
    put_text(to, name);
  }
  return NULL;
}

static TRITONSERVER_Error *too_large(void)
{
  return backend_error_unavailable("a batch is larger than memory");
}

static TRITONSERVER_Error *put_input(batch_writer *self, TRITONBACKEND_Input *input, size_t *end)
{
  buffer *to = &self->control;
  piece p = {.input = input};
  const char *name;
  TRITONSERVER_DataType datatype;
  const int64_t *dims;
  uint32_t rank;
  uint64_t size;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_InputPropertiesForHostPolicy(
      input, self->host_policy, &name, &datatype, &dims, &rank, &size, &p.buffers));
  p.place = channel_place(*end, size);
  if (p.place < *end || !checked_add_size(p.place, size, end) || *end > SIZE_MAX / 2)
    return too_large();
  put_text(to, name);
  put_u32(to, (uint32_t)datatype);
  put_u32(to, rank);
  buffer_append(to, dims, rank * sizeof(*dims));
  put_u64(to, p.place);
  put_u64(to, size);
  buffer_append(&self->pieces, &p, sizeof(p));
  return NULL;
}

static TRITONSERVER_Error *put_inputs(batch_writer *self, TRITONBACKEND_Request *request,
                                      size_t *end)
{
  uint32_t count;
  TRITONBACKEND_Input *input;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_RequestInputCount(request, &count));
  put_u32(&self->control, count);
  for (uint32_t i = 0; i < count; i++) {
    BACKEND_RETURN_IF_ERROR(TRITONBACKEND_RequestInputByIndex(request, i, &input));
    BACKEND_RETURN_IF_ERROR(put_input(self, input, end));
  }
  return NULL;
}

// The correlation id as text; NULL if it is a number.
static const char *correlation_text(TRITONBACKEND_Request *request)
{
  const char *text = NULL;
  TRITONSERVER_Error *error = TRITONBACKEND_RequestCorrelationIdString(request, &text);
  if (error == NULL && text != NULL)
    return text;
  TRITONSERVER_ErrorDelete(error);
  return "";
}

static uint64_t correlation_number(TRITONBACKEND_Request *request)
{
  uint64_t number = 0;
  TRITONSERVER_Error *error = TRITONBACKEND_RequestCorrelationId(request, &number);
  TRITONSERVER_ErrorDelete(error);
  return error == NULL ? number : 0;
}

static TRITONSERVER_Error *put_request(batch_writer *self, TRITONBACKEND_Request *request,
                                       uint64_t number, size_t *end)
{
  buffer *to = &self->control;
  const char *id;
  uint32_t flags;
  uint64_t timeout_us;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_RequestId(request, &id));
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_RequestFlags(request, &flags));
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_InferenceRequestTimeoutMicroseconds(request, &timeout_us));
  const char *correlation = correlation_text(request);
  put_u64(to, number);
  put_text(to, id);
  put_u32(to, flags);
  put_u64(to, correlation[0] == '\0' ? correlation_number(request) : 0);
  put_text(to, correlation);
  put_u64(to, timeout_us);
  BACKEND_RETURN_IF_ERROR(put_parameters(to, request));
  BACKEND_RETURN_IF_ERROR(put_outputs(to, request));
  return put_inputs(self, request, end);
}

// The other process has no access to this process's GPU memory.
static TRITONSERVER_Error *copy_from_gpu(TRITONBACKEND_Input *input, void *to, const void *from,
                                         int device, size_t size)
{
  const char *name;
  const gpu_place host = {.kind = GPU_MEMORY_HOST};
  const gpu_place place = {.kind = GPU_MEMORY_DEVICE, .device = device};
  BACKEND_RETURN_IF_ERROR(
      TRITONBACKEND_InputProperties(input, &name, NULL, NULL, NULL, NULL, NULL));
  return backend_copy_now(to, host, from, place, size, name);
}

static TRITONSERVER_Error *copy_piece(const batch_writer *self, const piece *p, uint8_t *block)
{
  uint8_t *to = block + p->place;
  for (uint32_t i = 0; i < p->buffers; i++) {
    const void *from;
    uint64_t size;
    TRITONSERVER_MemoryType type;
    int64_t type_id;
    BACKEND_RETURN_IF_ERROR(TRITONBACKEND_InputBufferForHostPolicy(p->input, self->host_policy, i,
                                                                   &from, &size, &type, &type_id));
    if (type == TRITONSERVER_MEMORY_GPU)
      BACKEND_RETURN_IF_ERROR(copy_from_gpu(p->input, to, from, (int)type_id, size));
    else
      memcpy(to, from, size);
    to += size;
  }
  return NULL;
}

static TRITONSERVER_Error *fill(const batch_writer *self, size_t control_at, uint8_t *block)
{
  memcpy(block + control_at, self->control.data, self->control.size);
  for (size_t at = 0; at < self->pieces.size; at += sizeof(piece)) {
    piece p;
    memcpy(&p, self->pieces.data + at, sizeof(p));
    BACKEND_RETURN_IF_ERROR(copy_piece(self, &p, block));
  }
  return NULL;
}

TRITONSERVER_Error *batch_write(batch_writer *self, channel *to,
                                TRITONBACKEND_Request *const *requests, const uint64_t *numbers,
                                uint32_t count, channel_message *message)
{
  size_t end = 0;
  uint64_t block;
  self->control.size = self->pieces.size = 0;
  put_u32(&self->control, count);
  for (uint32_t i = 0; i < count; i++)
    BACKEND_RETURN_IF_ERROR(put_request(self, requests[i], numbers[i], &end));
  if (self->control.failed || self->pieces.failed) {
    batch_writer_fini(self);
    return backend_error_no_memory("a batch for a model's process");
  }
  size_t control_at = channel_aligned(end);
  if (!channel_allocate(to, control_at + self->control.size, &block))
    return backend_error_unavailable(
        "no shared memory for the %zu bytes of a batch for a model's process", end);
  TRITONSERVER_Error *error = fill(self, control_at, channel_own(to, block));
  if (error != NULL) {
    channel_release(to, block);
    return error;
  }
  message->value = block;
  message->offset = block + control_at;
  message->size = self->control.size;
  return NULL;
}
