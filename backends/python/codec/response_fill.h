// SPDX-License-Identifier: Apache-2.0
// Turns a worker's response into the server's: checks its tensors against the model's configuration
// and copies them once, into the memory that the server gives.
#ifndef NEREID_PYTHON_RESPONSE_FILL_H
#define NEREID_PYTHON_RESPONSE_FILL_H

#include "backend_config.h"
#include "codec/device_share.h"
#include "codec/tensor_wire.h"

typedef struct state_signature {
  const char *name; // the name as an output
  TRITONSERVER_DataType datatype;
} state_signature;

// The outputs in a model's configuration, and its sequence states.
typedef struct output_signature {
  const char *model; // its name
  backend_tensor_config *outputs;
  size_t count;
  state_signature *states;
  size_t state_count;
} output_signature;

// Reads the rest of the response after `head` and adds it to `response`. Send the returned error,
// which may be the model's own, with the response. The reader ends up after the tensors even when
// they are wrong; when reader->bad is set nothing more can be read. `devices`: NULL where the
// worker has no memory on a device. `request`: its sequence gets the next states. NULL: a decoupled
// model's request, which may be released and has no states.
TRITONSERVER_Error *response_fill(TRITONBACKEND_Response *response, TRITONBACKEND_Request *request,
                                  const output_signature *signature, const channel *channel,
                                  device_share *devices, wire_reader *reader,
                                  const wire_response *head);

// Skips the rest of the response after `head`.
void response_skip(const channel *channel, wire_reader *reader, const wire_response *head);

#endif
