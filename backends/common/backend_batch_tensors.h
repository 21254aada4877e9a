// SPDX-License-Identifier: Apache-2.0
// The configuration's batch_input and batch_output. A batch input is a tensor that says where each
// request begins in an input that was concatenated without padding. A batch output is cut into
// responses by the shapes of an input. The rules are Triton's (docs/backends.md, "Ragged batches").
// Read at load; used on the instance's thread.
#ifndef NEREID_BACKEND_BATCH_TENSORS_H
#define NEREID_BACKEND_BATCH_TENSORS_H

#include "backend_config.h"
#include "backend_tensor.h"

typedef enum backend_batch_kind {
  BATCH_ELEMENT_COUNT,                       // [requests]: elements of each request
  BATCH_ACCUMULATED_ELEMENT_COUNT,           // [requests]: of each request and all before it
  BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO, // [requests + 1]: the same after a 0
  BATCH_MAX_ELEMENT_COUNT_AS_SHAPE, // [largest count]: only the shape matters, the values are 0
  BATCH_ITEM_SHAPE,                 // [rows, rank]: the shape of each row
  BATCH_ITEM_SHAPE_FLATTEN,         // [rows * rank]: the same
} backend_batch_kind;

typedef struct backend_batch_input {
  backend_batch_kind kind;
  TRITONSERVER_DataType datatype; // FP32 or INT32
  const char *source;             // the input that it describes
  const json_t *targets;          // names of the tensors that get it
  size_t target_count;
} backend_batch_input;

const char *backend_batch_target(const backend_batch_input *self, size_t index);

// Reads the list. `*list` is for free(), NULL with `*count` 0; the names belong to `config`.
TRITONSERVER_Error *backend_batch_inputs(const json_t *config, backend_batch_input **list,
                                         size_t *count);

// Makes the batch's tensor in `buffer`. `sources` has the source input of each request; an absent
// input counts as no elements. INVALID_ARG for a number that does not fit INT32.
TRITONSERVER_Error *backend_batch_input_make(const backend_batch_input *self,
                                             const backend_input *sources, uint32_t request_count,
                                             backend_buffer *buffer, backend_shape *shape,
                                             size_t *byte_size);

// An output without a batch dimension of its own. Each response gets as many of its elements, in
// the requests' order, as the response's shape has (BATCH_SCATTER_WITH_INPUT_SHAPE).
typedef struct backend_batch_output {
  const char *name;
  const char *source;
  backend_shape dims; // the output's, behind the batch dimension; -1: as in the source input
} backend_batch_output;

// Reads the list, one entry for each target. `*list` is for free(), NULL with `*count` 0; the names
// belong to `config`.
TRITONSERVER_Error *backend_batch_outputs(const json_t *config, backend_batch_output **list,
                                          size_t *count);

// The shape of one response, from the source input of its request.
TRITONSERVER_Error *backend_scatter_shape(const backend_batch_output *self,
                                          const backend_input *source, backend_shape *shape);

#endif
