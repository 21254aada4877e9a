// SPDX-License-Identifier: Apache-2.0
// An identity model: its pairs of inputs and outputs, and its test parameters. Read once from the
// configuration when the model loads; the instances only read it.
#ifndef NEREID_IDENTITY_MODEL_H
#define NEREID_IDENTITY_MODEL_H

#include "backend_config.h"

#include <stdatomic.h>

// OUTPUT<suffix> gets the data of INPUT<suffix>. Both may belong to a sequence's state: the input
// is the current state, the output the next.
typedef struct identity_pair {
  char *input_name;
  char *output_name;
  TRITONSERVER_DataType datatype;
  backend_shape absent_shape; // of the zeros for an absent optional input, without the batch
  bool optional;
  bool is_output; // in responses
  bool is_state;  // it is the sequence's next state
} identity_pair;

typedef struct identity_model {
  char *name;
  identity_pair *pairs;
  size_t pair_count;
  bool batches;
  int64_t execute_delay_ms;
  int64_t delay_multiplier;
  bool custom_tracing;
  int64_t nested_span_count;
  int64_t single_activity_frequency;
  int64_t creation_delay_sec;
  atomic_uint instance_count;
  TRITONSERVER_Metric *input_bytes; // NULL where the server has no metrics
} identity_model;

// Reads and checks the configuration.
TRITONSERVER_Error *identity_model_new(TRITONBACKEND_Model *model, const char *name,
                                       identity_model **result);

void identity_model_free(identity_model *model);

#endif
