// SPDX-License-Identifier: Apache-2.0
// A worker's response as the server's: its tensors are checked against the model's configuration
// and copied once, into the memory that the server gives.
#ifndef NEREID_PYTHON_RESPONSE_FILL_H
#define NEREID_PYTHON_RESPONSE_FILL_H

#include "backend_config.h"
#include "codec/device_share.h"
#include "codec/tensor_wire.h"

typedef struct state_signature {
  const char *name; // as an output
  TRITONSERVER_DataType datatype;
} state_signature;

// The outputs that a model's configuration has, and the states of sequences.
typedef struct output_signature {
  const char *model; // its name
  backend_tensor_config *outputs;
  size_t count;
  state_signature *states;
  size_t state_count;
} output_signature;

// Reads what follows `head` in the control part and adds it to `response`. The error, which may be
// the model's own, is to be sent with the response. Whatever is wrong with a tensor, the reader is
// past it afterwards; when reader->bad is set nothing after it can be read. `devices`: NULL where
// the worker has no memory on a device. `request`: whose sequence gets the next states; NULL: a
// decoupled model's, which may be released and cannot.
TRITONSERVER_Error *response_fill(TRITONBACKEND_Response *response, TRITONBACKEND_Request *request,
                                  const output_signature *signature, const channel *channel,
                                  device_share *devices, wire_reader *reader,
                                  const wire_response *head);

// Passes over what follows `head`.
void response_skip(const channel *channel, wire_reader *reader, const wire_response *head);

#endif
