// SPDX-License-Identifier: Apache-2.0
// Runs a batch of an identity model on the host, and has the functions that instances on GPUs share
// (identity_device.c). Called on the instance's thread.
#ifndef NEREID_IDENTITY_EXECUTE_H
#define NEREID_IDENTITY_EXECUTE_H

#include "backend_tensor.h"
#include "identity_model.h"

struct identity_device;

typedef struct identity_instance {
  identity_model *model;
  struct identity_device *device; // NULL: on the CPU
  unsigned index;                 // among the model's instances, from 0
  char *host_policy;
} identity_instance;

// Answers and releases all requests. On an error they stay the server's.
TRITONSERVER_Error *identity_execute(const identity_instance *self,
                                     TRITONBACKEND_ModelInstance *instance,
                                     TRITONBACKEND_Request **requests, uint32_t count);

// ---- parts ----

// Waits as long as `execute_delay_ms` says.
void identity_delay(const identity_instance *self);
// Reports the trace activities, if configured, and reads the batch size: 0 for a model that does
// not batch.
TRITONSERVER_Error *identity_look(const identity_model *model, TRITONBACKEND_Request *request,
                                  int64_t *batch_size);
// Whether the pair's optional input is absent.
TRITONSERVER_Error *identity_is_absent(const identity_pair *pair, TRITONBACKEND_Request *request,
                                       bool *absent);
TRITONSERVER_Error *identity_count_bytes(const identity_model *model, const backend_input *input);

// The output for an absent optional input: zeros in the configured shape, 1 for each open
// dimension.
typedef struct identity_zeros {
  int64_t dims[BACKEND_MAX_RANK + 1];
  uint32_t rank;
  size_t byte_size;
} identity_zeros;
TRITONSERVER_Error *identity_zeros_of(const identity_pair *pair, int64_t batch_size,
                                      identity_zeros *zeros);

// The example parameters that Triton's backend adds to each response; its tests check them.
TRITONSERVER_Error *identity_set_parameters(TRITONBACKEND_Response *response);

#endif
