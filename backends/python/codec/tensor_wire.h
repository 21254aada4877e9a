// SPDX-License-Identifier: Apache-2.0
// Tensors, parameters and responses in control parts (protocol.h): how the host reads and writes
// them. A worker wrote the data that is read, so it is checked here as far as possible without the
// model's configuration.
#ifndef NEREID_PYTHON_TENSOR_WIRE_H
#define NEREID_PYTHON_TENSOR_WIRE_H

#include "backend_shape.h"
#include "channel.h"
#include "codec/protocol.h"
#include "wire.h"

#include "triton/core/tritonserver.h"

#include <jansson.h>

typedef struct wire_tensor {
  char name[MAX_PROTOCOL_NAME + 1];
  TRITONSERVER_DataType datatype;
  backend_shape shape;
  const void *data; // in the worker's region, and may change at any time; NULL: on a device
  size_t byte_size;
  int device;      // -1: none
  uint64_t offset; // on the device
} wire_tensor;

// Sets reader->bad unless the tensor is valid: a name of 1 to MAX_PROTOCOL_NAME bytes without NUL,
// a known datatype, no negative dimension, data inside the worker's region. The caller checks
// places on devices (device_share_at).
void wire_tensor_read(wire_reader *reader, const channel *channel, wire_tensor *tensor);

// `datatype`: for a tensor on a device made by wire_on_device.
void wire_tensor_write(wire_writer *writer, const char *name, uint32_t datatype,
                       const int64_t *dims, uint64_t rank, uint64_t offset, uint64_t byte_size);

static inline uint32_t wire_on_device(TRITONSERVER_DataType datatype, int device)
{
  return (uint32_t)datatype | (uint32_t)(device + 1) << PROTOCOL_DEVICE_SHIFT;
}

// Whether byte_size fits the shape. BYTES: always true, see wire_bytes_fit.
bool wire_tensor_size_fits(const wire_tensor *tensor);

// Whether `data` is `count` elements of BYTES: each a little-endian uint32_t and as many bytes. No
// other thread or process may be able to change `data`.
bool wire_bytes_fit(const void *data, size_t byte_size, size_t count);

// A parameter's type and value, as the server's API gives them, as a JSON value that the caller
// owns. NULL when it has no form in JSON (BYTES, a text that is not UTF-8, NaN), or without memory.
json_t *parameter_to_json(TRITONSERVER_ParameterType type, const void *value);

// A response up to its tensors, which follow in the reader. `text` (the error's message, or the
// parameters as JSON) points into the control part and has no NUL.
typedef struct wire_response {
  enum response_kind kind;
  TRITONSERVER_Error_Code code;
  const char *text;
  size_t text_length;
  uint32_t tensor_count;
} wire_response;

void wire_response_read(wire_reader *reader, wire_response *response);

// Writes a TRITONSERVER_Error as a response; the second as the control part of a failed reply
// (without the kind). Both are of type control_part_write.
void wire_error_response_write(wire_writer *writer, const void *error);
void wire_error_write(wire_writer *writer, const void *error);

#endif
