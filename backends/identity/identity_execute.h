// SPDX-License-Identifier: Apache-2.0
// Runs a batch of an identity model on the host, and what instances on GPUs do alike
// (identity_device.c). Called on the instance's thread.
#ifndef NEREID_IDENTITY_EXECUTE_H
#define NEREID_IDENTITY_EXECUTE_H

#include "backend_tensor.h"
#include "identity_model.h"

struct identity_device;

typedef struct identity_instance {
  identity_model *model;
  struct identity_device *device; // NULL: on CPUs
  unsigned index;                 // of the model's instances, from 0
  char *host_policy;
} identity_instance;

// Answers and releases all requests. On an error they stay the server's.
TRITONSERVER_Error *identity_execute(const identity_instance *self,
                                     TRITONBACKEND_ModelInstance *instance,
                                     TRITONBACKEND_Request **requests, uint32_t count);

// ---- parts ----

// How long an execution of a model with `execute_delay_ms` takes.
void identity_delay(const identity_instance *self);
// What is done with a request before its tensors; `*batch_size` is 0 for a model that does not
// batch.
TRITONSERVER_Error *identity_look(const identity_model *model, TRITONBACKEND_Request *request,
                                  int64_t *batch_size);
// Whether the pair's input, which may be, is absent.
TRITONSERVER_Error *identity_is_absent(const identity_pair *pair, TRITONBACKEND_Request *request,
                                       bool *absent);
TRITONSERVER_Error *identity_count_bytes(const identity_model *model, const backend_input *input);

// The output for an optional input that is absent: zeros in the configured shape, 1 for each open
// dimension.
typedef struct identity_zeros {
  int64_t dims[BACKEND_MAX_RANK + 1];
  uint32_t rank;
  size_t byte_size;
} identity_zeros;
TRITONSERVER_Error *identity_zeros_of(const identity_pair *pair, int64_t batch_size,
                                      identity_zeros *zeros);

// Example parameters that Triton's backend attaches to each response; its tests look for them.
TRITONSERVER_Error *identity_set_parameters(TRITONBACKEND_Response *response);

#endif
