// SPDX-License-Identifier: Apache-2.0
// Writes requests as the block of a WORK_EXECUTE: gathers what the server knows about them, then
// writes it into the host's region, followed by the input data. The instance's thread.
#ifndef NEREID_PYTHON_REQUEST_WIRE_H
#define NEREID_PYTHON_REQUEST_WIRE_H

#include "backend_tensor.h"
#include "channel.h"
#include "codec/device_share.h"
#include "codec/response_fill.h"

// The facts about one request. Pointers belong to the request, except `parameters`.
typedef struct request_facts {
  TRITONBACKEND_Request *request;
  uint64_t handle;
  const char *id;
  const char *correlation_text; // NULL: the number counts
  uint64_t correlation;
  uint32_t flags;
  uint64_t timeout_us;
  char *parameters;                       // JSON, for free(); NULL: none
  TRITONSERVER_InferenceTrace *traced_by; // NULL: not traced
  const char *trace;                      // its context
  uint32_t output_count;
  const state_signature *states; // next states that the model may return for sequences
  size_t state_count;
  backend_input *inputs; // for free()
  uint32_t input_count;
  device_range *places; // of the inputs on devices, for free(); NULL: none
  bool has_failed;      // the worker's answer says so
} request_facts;

// Reads all facts of one request, with the input data for `host_policy`, which must live as long.
// `takes_devices`: inputs on a device stay there. On an error nothing is held.
TRITONSERVER_Error *request_facts_read(TRITONBACKEND_Request *request, const char *host_policy,
                                       bool takes_devices, request_facts *facts);
void request_facts_fini(request_facts *facts);

// Writes all requests into one block and names it in `work`: offset and size are the control
// part's, which begins the block. When an input causes the error, `*culprit` is the index of its
// request, else `count`. `devices`: NULL when no request has `places`, so that no driver is called.
TRITONSERVER_Error *request_wire_write(channel *channel, device_share *devices,
                                       request_facts *requests, uint32_t count,
                                       channel_message *work, uint32_t *culprit);

#endif
