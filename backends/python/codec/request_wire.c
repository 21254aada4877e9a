// SPDX-License-Identifier: Apache-2.0
// Reads all facts of a request through the ABI, then writes the batch's block.
#include "codec/request_wire.h"

#include "backend_config.h"
#include "backend_error.h"
#include "codec/tensor_wire.h"

#include <stdlib.h>
#include <string.h>

// ---- gathering

static TRITONSERVER_Error *add_parameter(TRITONBACKEND_Request *request, uint32_t index,
                                         json_t *object)
{
  TRITONSERVER_ParameterType type;
  const char *key;
  const void *data;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_RequestParameter(request, index, &key, &type, &data));
  json_t *value = parameter_to_json(type, data);
  if (value == NULL)
    return backend_error_invalid(type == TRITONSERVER_PARAMETER_BYTES
                                     ? "Unsupported parameter type for parameter '%s'."
                                     : "parameter '%s' cannot be told in JSON",
                                 key);
  return json_object_set_new(object, key, value) == 0
             ? NULL
             : backend_error_no_memory("a request's parameters");
}

static TRITONSERVER_Error *read_parameters(TRITONBACKEND_Request *request, char **text)
{
  uint32_t count = 0;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_RequestParameterCount(request, &count));
  if (count == 0)
    return NULL;
  json_auto_t *object = json_object();
  for (uint32_t i = 0; i < count; i++)
    BACKEND_RETURN_IF_ERROR(add_parameter(request, i, object));
  *text = json_dumps(object, JSON_COMPACT);
  return *text != NULL ? NULL : backend_error_no_memory("a request's parameters");
}

// Servers without tracing return an error.
static void read_trace(TRITONBACKEND_Request *request, request_facts *facts)
{
  TRITONSERVER_Error *error = TRITONBACKEND_RequestTrace(request, &facts->traced_by);
  if (error == NULL && facts->traced_by != NULL)
    error = TRITONSERVER_InferenceTraceContext(facts->traced_by, &facts->trace);
  TRITONSERVER_ErrorDelete(error);
}

static TRITONSERVER_Error *read_correlation(TRITONBACKEND_Request *request, request_facts *facts)
{
  TRITONSERVER_Error *error = TRITONBACKEND_RequestCorrelationId(request, &facts->correlation);
  if (error == NULL)
    return NULL;
  TRITONSERVER_ErrorDelete(error); // the correlation id is a text
  return TRITONBACKEND_RequestCorrelationIdString(request, &facts->correlation_text);
}

static TRITONSERVER_Error *read_inputs(TRITONBACKEND_Request *request, const char *host_policy,
                                       request_facts *facts)
{
  uint32_t count = 0;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_RequestInputCount(request, &count));
  facts->inputs = calloc(count > 0 ? count : 1, sizeof(*facts->inputs));
  if (facts->inputs == NULL)
    return backend_error_no_memory("a request's inputs");
  facts->input_count = count;
  for (uint32_t i = 0; i < count; i++) {
    const char *name;
    BACKEND_RETURN_IF_ERROR(TRITONBACKEND_RequestInputName(request, i, &name));
    BACKEND_RETURN_IF_ERROR(backend_input_find(request, name, host_policy, &facts->inputs[i]));
  }
  return NULL;
}

// The device that holds all of the input. -1: the input must be on the CPU, as texts always are.
static TRITONSERVER_Error *find_device(const backend_input *input, int *device)
{
  uint64_t before = 0;
  *device = -1;
  if (input->byte_size == 0 || input->datatype == TRITONSERVER_TYPE_BYTES)
    return NULL;
  for (uint32_t i = 0; i < input->buffer_count; i++) {
    backend_piece piece;
    BACKEND_RETURN_IF_ERROR(backend_input_piece(input, i, before, &piece));
    if (piece.place.kind != GPU_MEMORY_DEVICE || (i > 0 && piece.place.device != *device)) {
      *device = -1;
      return NULL;
    }
    *device = piece.place.device;
    before += piece.byte_size;
  }
  return NULL;
}

static TRITONSERVER_Error *find_devices(request_facts *facts)
{
  for (uint32_t i = 0; i < facts->input_count; i++) {
    int device;
    BACKEND_RETURN_IF_ERROR(find_device(&facts->inputs[i], &device));
    if (device < 0)
      continue;
    if (facts->places == NULL) {
      facts->places = calloc(facts->input_count, sizeof(*facts->places));
      if (facts->places == NULL)
        return backend_error_no_memory("a request's inputs");
      for (uint32_t k = 0; k < facts->input_count; k++)
        facts->places[k].device = -1;
    }
    facts->places[i].device = device;
  }
  return NULL;
}

static TRITONSERVER_Error *read_all(TRITONBACKEND_Request *request, const char *host_policy,
                                    bool takes_devices, request_facts *facts)
{
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_RequestId(request, &facts->id));
  BACKEND_RETURN_IF_ERROR(read_correlation(request, facts));
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_RequestFlags(request, &facts->flags));
  BACKEND_RETURN_IF_ERROR(
      TRITONBACKEND_InferenceRequestTimeoutMicroseconds(request, &facts->timeout_us));
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_RequestOutputCount(request, &facts->output_count));
  BACKEND_RETURN_IF_ERROR(read_parameters(request, &facts->parameters));
  read_trace(request, facts);
  BACKEND_RETURN_IF_ERROR(read_inputs(request, host_policy, facts));
  return takes_devices ? find_devices(facts) : NULL;
}

TRITONSERVER_Error *request_facts_read(TRITONBACKEND_Request *request, const char *host_policy,
                                       bool takes_devices, request_facts *facts)
{
  *facts = (request_facts){.request = request};
  TRITONSERVER_Error *error = read_all(request, host_policy, takes_devices, facts);
  if (error != NULL)
    request_facts_fini(facts);
  return error;
}

void request_facts_fini(request_facts *facts)
{
  free(facts->parameters);
  free(facts->inputs);
  free(facts->places);
  facts->places = NULL;
  facts->parameters = NULL;
  facts->inputs = NULL;
}

// ---- devices

// Gives inputs on devices a range there, where there is room, and copies them.
static TRITONSERVER_Error *fill_places(device_share *devices, request_facts *facts)
{
  for (uint32_t i = 0; facts->places != NULL && i < facts->input_count; i++) {
    device_range *place = &facts->places[i];
    if (place->device >= 0 &&
        device_share_take(devices, place->device, facts->inputs[i].byte_size, place))
      BACKEND_RETURN_IF_ERROR(backend_input_copy_to(
          &facts->inputs[i],
          (backend_room){.data = place->memory,
                         .place = {.kind = GPU_MEMORY_DEVICE, .device = place->device}}));
  }
  return NULL;
}

static void empty_places(device_share *devices, request_facts *requests, uint32_t count)
{
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t k = 0; requests[i].places != NULL && k < requests[i].input_count; k++) {
      device_range *place = &requests[i].places[k];
      if (place->memory != NULL)
        device_share_give_back(devices, place);
      place->memory = NULL;
    }
}

static TRITONSERVER_Error *fill_all_places(device_share *devices, request_facts *requests,
                                           uint32_t count, uint32_t *culprit)
{
  for (*culprit = 0; *culprit < count; ++*culprit)
    BACKEND_RETURN_IF_ERROR(fill_places(devices, &requests[*culprit]));
  return NULL;
}

// Lends the ranges to the worker until it gives `block` back.
static TRITONSERVER_Error *lend_places(device_share *devices, request_facts *requests,
                                       uint32_t count, uint64_t block)
{
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t k = 0; requests[i].places != NULL && k < requests[i].input_count; k++) {
      device_range *place = &requests[i].places[k];
      if (place->memory != NULL && !device_share_lend(devices, block, place)) {
        device_share_release(devices, block);
        return backend_error_no_memory("a request's inputs");
      }
      place->memory = NULL;
    }
  return NULL;
}

static bool is_placed(const request_facts *facts, uint32_t input)
{
  return facts->places != NULL && facts->places[input].memory != NULL;
}

// ---- writing

// The region's offset for the next input's data. *next is the end so far.
static uint64_t place_input(uint64_t *next, const backend_input *input)
{
  uint64_t offset = channel_place(*next, input->byte_size);
  *next = offset + channel_aligned(input->byte_size);
  return input->byte_size == 0 ? 0 : offset;
}

static void put_correlation(wire_writer *writer, const request_facts *facts)
{
  wire_put_u8(writer, facts->correlation_text != NULL);
  if (facts->correlation_text != NULL)
    wire_put_string(writer, facts->correlation_text);
  else
    wire_put_u64(writer, facts->correlation);
}

static void put_outputs(wire_writer *writer, const request_facts *facts)
{
  wire_put_u32(writer, facts->output_count + (uint32_t)facts->state_count);
  for (uint32_t i = 0; i < facts->output_count; i++) {
    const char *name = NULL;
    TRITONSERVER_ErrorDelete(TRITONBACKEND_RequestOutputName(facts->request, i, &name));
    wire_put_string(writer, name);
  }
  for (size_t i = 0; i < facts->state_count; i++)
    wire_put_string(writer, facts->states[i].name);
}

static void put_request(wire_writer *writer, const request_facts *facts, uint64_t *next)
{
  wire_put_u64(writer, facts->handle);
  wire_put_string(writer, facts->id);
  put_correlation(writer, facts);
  wire_put_u32(writer, facts->flags);
  wire_put_u64(writer, facts->timeout_us);
  wire_put_string(writer, facts->parameters);
  wire_put_string(writer, facts->trace);
  put_outputs(writer, facts);
  wire_put_u32(writer, facts->input_count);
  for (uint32_t i = 0; i < facts->input_count; i++) {
    const backend_input *input = &facts->inputs[i];
    const bool placed = is_placed(facts, i);
    wire_tensor_write(
        writer, input->name, wire_on_device(input->datatype, placed ? facts->places[i].device : -1),
        input->dims, input->rank, placed ? facts->places[i].offset : place_input(next, input),
        input->byte_size);
  }
}

static void put_all(wire_writer *writer, const request_facts *requests, uint32_t count,
                    uint64_t *next)
{
  wire_put_u32(writer, count);
  for (uint32_t i = 0; i < count; i++)
    put_request(writer, &requests[i], next);
}

// The block's size: the control part, followed by the inputs.
static bool block_size(const request_facts *requests, uint32_t count, size_t control, size_t *size)
{
  *size = control;
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t k = 0; k < requests[i].input_count; k++) {
      uint64_t bytes = is_placed(&requests[i], k) ? 0 : requests[i].inputs[k].byte_size;
      if (bytes > SIZE_MAX / 4 || *size > SIZE_MAX / 4)
        return false;
      *size = channel_place(*size, bytes) + channel_aligned(bytes);
    }
  return true;
}

static TRITONSERVER_Error *copy_input(const backend_input *input, void *to)
{
  BACKEND_RETURN_IF_ERROR(backend_input_copy(input, to));
  if (input->datatype == TRITONSERVER_TYPE_BYTES &&
      !wire_bytes_fit(to, input->byte_size, input->element_count))
    return backend_error_invalid("input '%s' is not the BYTES elements of its shape", input->name);
  return NULL;
}

// Copies inputs in the order and to the places of put_all; the first is at `next` or later.
static TRITONSERVER_Error *copy_inputs(const channel *channel, const request_facts *requests,
                                       uint32_t count, uint64_t next, uint32_t *culprit)
{
  for (*culprit = 0; *culprit < count; ++*culprit)
    for (uint32_t k = 0; k < requests[*culprit].input_count; k++) {
      const backend_input *input = &requests[*culprit].inputs[k];
      if (is_placed(&requests[*culprit], k))
        continue;
      BACKEND_RETURN_IF_ERROR(copy_input(input, channel_own(channel, place_input(&next, input))));
    }
  return NULL;
}

static TRITONSERVER_Error *write_block(channel *channel, const request_facts *requests,
                                       uint32_t count, channel_message *work, uint32_t *culprit)
{
  wire_writer writer = {0};
  size_t total;
  uint64_t block, next = 0;
  *culprit = count;
  put_all(&writer, requests, count, &next);
  size_t control = channel_aligned(writer.size);
  if (!block_size(requests, count, control, &total) || !channel_allocate(channel, total, &block))
    return backend_error_unavailable(
        "no room for the inputs of %u requests in the memory that is shared with "
        "the Python worker: they are too large, or the model keeps too many "
        "(--backend-config=python,worker-shared-bytes)",
        count);
  writer = (wire_writer){.to = channel_own(channel, block), .room = writer.size};
  next = block + control;
  put_all(&writer, requests, count, &next);
  TRITONSERVER_Error *error = copy_inputs(channel, requests, count, block + control, culprit);
  if (error != NULL) {
    channel_release(channel, block);
    return error;
  }
  work->offset = block;
  work->size = writer.size;
  return NULL;
}

TRITONSERVER_Error *request_wire_write(channel *channel, device_share *devices,
                                       request_facts *requests, uint32_t count,
                                       channel_message *work, uint32_t *culprit)
{
  if (devices == NULL)
    return write_block(channel, requests, count, work, culprit);
  TRITONSERVER_Error *error = fill_all_places(devices, requests, count, culprit);
  if (error == NULL)
    error = write_block(channel, requests, count, work, culprit);
  if (error == NULL) {
    error = lend_places(devices, requests, count, work->offset);
    if (error != NULL)
      channel_release(channel, work->offset);
  }
  empty_places(devices, requests, count);
  return error;
}
