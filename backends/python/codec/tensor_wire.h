// SPDX-License-Identifier: Apache-2.0
// Tensors, parameters and responses in control parts (protocol.h): how the host reads and writes
// them. What is read was written by a worker and is checked here as far as it can be without the
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
  const void *data; // in the worker's region: it can change at any time; NULL: on a device
  size_t byte_size;
  int device;      // -1: none
  uint64_t offset; // on the device
} wire_tensor;

// Sets reader->bad when there is no tensor that can be: a name of 1 to MAX_PROTOCOL_NAME bytes
// without NUL, a known datatype, no negative dimension, data inside the worker's region. Where
// something is on a device is to be checked by who has it (device_share_at).
void wire_tensor_read(wire_reader *reader, const channel *channel, wire_tensor *tensor);

// `datatype`: with the device, wire_on_device.
void wire_tensor_write(wire_writer *writer, const char *name, uint32_t datatype,
                       const int64_t *dims, uint64_t rank, uint64_t offset, uint64_t byte_size);

static inline uint32_t wire_on_device(TRITONSERVER_DataType datatype, int device)
{
  return (uint32_t)datatype | (uint32_t)(device + 1) << PROTOCOL_DEVICE_SHIFT;
}

// Whether byte_size is that of the shape. BYTES: always true, see wire_bytes_fit.
bool wire_tensor_size_fits(const wire_tensor *tensor);

// Whether `data`, which nobody else can change, is `count` elements of BYTES: each a little-endian
// uint32_t and as many bytes.
bool wire_bytes_fit(const void *data, size_t byte_size, size_t count);

// What the server's API gives as a parameter's type and value, as a JSON value that is the
// caller's. NULL for what has no form in JSON: a type without one (BYTES), a text that is not
// UTF-8, NaN; or no memory.
json_t *parameter_to_json(TRITONSERVER_ParameterType type, const void *value);

// A response up to its tensors, which follow in the reader. `text` (the error's message, or the
// parameters as JSON) points into the control part and is not terminated.
typedef struct wire_response {
  enum response_kind kind;
  TRITONSERVER_Error_Code code;
  const char *text;
  size_t text_length;
  uint32_t tensor_count;
} wire_response;

void wire_response_read(wire_reader *reader, wire_response *response);

// A TRITONSERVER_Error as a response, or as the control part of a reply that failed (without the
// kind). Of type control_part_write.
void wire_error_response_write(wire_writer *writer, const void *error);
void wire_error_write(wire_writer *writer, const void *error);

#endif
