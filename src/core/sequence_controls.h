// SPDX-License-Identifier: Apache-2.0
// The inputs by which a sequence batcher tells a model about a request: START, END, READY and the
// correlation id, as the configuration names them. Read once at load; used by threads that hand
// requests to instances.
#ifndef NEREID_CORE_SEQUENCE_CONTROLS_H
#define NEREID_CORE_SEQUENCE_CONTROLS_H

#include "config/config.h"
#include "request/request.h"

typedef struct sequence_control {
  const char *name; // the configuration's
  TRITONSERVER_DataType datatype;
  int kind;          // Inference__ModelSequenceBatching__Control__Kind
  char values[2][4]; // for false and true; unused for the correlation id
  size_t size;       // of each value
} sequence_control;

typedef struct sequence_controls {
  sequence_control *items;
  size_t count;
  uint32_t dim_count; // of each input: [1] or, with a batch dimension, [1, 1]
} sequence_controls;

// Borrows names from the configuration, which was validated.
error *sequence_controls_init(sequence_controls *controls, const Inference__ModelConfig *config);
void sequence_controls_fini(sequence_controls *controls);

// Adds the inputs to a prepared request of a sequence, or to a null request.
error *sequence_controls_add(const sequence_controls *controls, request *r);

#endif
