// SPDX-License-Identifier: Apache-2.0
// Fields of tensors, parameters and responses. Invalid values make the reader bad.
#include "codec/tensor_wire.h"

#include <string.h>

// The smallest tensor in a control part: name, datatype, rank, offset, size.
#define MIN_TENSOR_BYTES (4 + 4 + 4 + 8 + 8)

static void read_name(wire_reader *reader, char *name)
{
  size_t length;
  const char *text = wire_get_text(reader, &length);
  if (length == 0 || length > MAX_PROTOCOL_NAME || memchr(text, '\0', length) != NULL) {
    reader->bad = true;
    length = 0;
  }
  if (length > 0)
    memcpy(name, text, length);
  name[length] = '\0';
}

static void read_shape(wire_reader *reader, backend_shape *shape)
{
  uint32_t rank = wire_get_u32(reader);
  if (rank > BACKEND_MAX_RANK) {
    reader->bad = true;
    rank = 0;
  }
  shape->rank = rank;
  for (uint32_t i = 0; i < rank; i++) {
    shape->dims[i] = wire_get_i64(reader);
    if (shape->dims[i] < 0)
      reader->bad = true;
  }
}

void wire_tensor_read(wire_reader *reader, const channel *channel, wire_tensor *tensor)
{
  read_name(reader, tensor->name);
  const uint32_t where = wire_get_u32(reader);
  const uint32_t datatype = where & ((1u << PROTOCOL_DEVICE_SHIFT) - 1);
  if (datatype < TRITONSERVER_TYPE_BOOL || datatype > TRITONSERVER_TYPE_BF16)
    reader->bad = true;
  tensor->datatype = (TRITONSERVER_DataType)datatype;
  read_shape(reader, &tensor->shape);
  tensor->offset = wire_get_u64(reader);
  tensor->byte_size = wire_get_u64(reader);
  tensor->device = (int)(where >> PROTOCOL_DEVICE_SHIFT) - 1;
  tensor->data = NULL;
  if (tensor->byte_size == 0)
    tensor->device = -1;
  if (tensor->device < 0)
    tensor->data =
        tensor->byte_size == 0 ? "" : channel_other(channel, tensor->offset, tensor->byte_size);
  if (tensor->data == NULL && (tensor->device < 0 || datatype == TRITONSERVER_TYPE_BYTES))
    reader->bad = true;
}

void wire_tensor_write(wire_writer *writer, const char *name, uint32_t datatype,
                       const int64_t *dims, uint64_t rank, uint64_t offset, uint64_t byte_size)
{
  wire_put_string(writer, name);
  wire_put_u32(writer, datatype);
  wire_put_u32(writer, (uint32_t)rank);
  for (uint64_t i = 0; i < rank; i++)
    wire_put_i64(writer, dims[i]);
  wire_put_u64(writer, offset);
  wire_put_u64(writer, byte_size);
}

bool wire_tensor_size_fits(const wire_tensor *tensor)
{
  size_t elements, expected;
  if (tensor->datatype == TRITONSERVER_TYPE_BYTES)
    return true;
  return backend_element_count(tensor->shape.dims, tensor->shape.rank, &elements) &&
         !__builtin_mul_overflow(elements, TRITONSERVER_DataTypeByteSize(tensor->datatype),
                                 &expected) &&
         expected == tensor->byte_size;
}

bool wire_bytes_fit(const void *data, size_t byte_size, size_t count)
{
  wire_reader reader = {.at = data, .end = (const uint8_t *)data + byte_size};
  size_t length;
  for (size_t i = 0; i < count && !reader.bad; i++)
    wire_get_text(&reader, &length);
  return !reader.bad && reader.at == reader.end;
}

json_t *parameter_to_json(TRITONSERVER_ParameterType type, const void *value)
{
  switch (type) {
  case TRITONSERVER_PARAMETER_STRING:
    return json_string(value);
  case TRITONSERVER_PARAMETER_INT:
    return json_integer(*(const int64_t *)value);
  case TRITONSERVER_PARAMETER_BOOL:
    return json_boolean(*(const bool *)value);
  case TRITONSERVER_PARAMETER_DOUBLE:
    return json_real(*(const double *)value);
  default:
    return NULL;
  }
}

void wire_response_read(wire_reader *reader, wire_response *response)
{
  *response = (wire_response){.kind = wire_get_u8(reader)};
  switch (response->kind) {
  case RESPONSE_NONE:
  case RESPONSE_RESCHEDULED:
  case RESPONSE_FAILED:
    return;
  case RESPONSE_ERROR: {
    uint32_t code = wire_get_u32(reader);
    response->code = code <= TRITONSERVER_ERROR_CANCELLED ? (TRITONSERVER_Error_Code)code
                                                          : TRITONSERVER_ERROR_INTERNAL;
    response->text = wire_get_text(reader, &response->text_length);
    return;
  }
  case RESPONSE_TENSORS:
    response->text = wire_get_text(reader, &response->text_length);
    response->tensor_count = wire_get_count(reader, MIN_TENSOR_BYTES);
    return;
  }
  reader->bad = true;
}

void wire_error_write(wire_writer *writer, const void *what)
{
  TRITONSERVER_Error *error = (TRITONSERVER_Error *)what; // the ABI only reads it
  wire_put_u32(writer, TRITONSERVER_ErrorCode(error));
  wire_put_string(writer, TRITONSERVER_ErrorMessage(error));
}

void wire_error_response_write(wire_writer *writer, const void *error)
{
  wire_put_u8(writer, RESPONSE_ERROR);
  wire_error_write(writer, error);
}
