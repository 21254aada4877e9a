// SPDX-License-Identifier: Apache-2.0
// What a configuration's batch_input and batch_output make of a batch: tensors that say where each
// request is in an input that was concatenated without padding, and the shapes by which an output
// is cut into responses. The rules are Triton's (docs/backends.md, "Ragged batches"). Read at load;
// used on the instance's thread.
#ifndef NEREID_BACKEND_BATCH_TENSORS_H
#define NEREID_BACKEND_BATCH_TENSORS_H

#include "backend_config.h"
#include "backend_tensor.h"

typedef enum backend_batch_kind {
  BATCH_ELEMENT_COUNT,                       // [requests]: elements of each request
  BATCH_ACCUMULATED_ELEMENT_COUNT,           // [requests]: of each and those before it
  BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO, // [requests + 1]: the same behind a 0
  BATCH_MAX_ELEMENT_COUNT_AS_SHAPE,          // [largest count]: the shape says it, the values are 0
  BATCH_ITEM_SHAPE,                          // [rows, rank]: the shape of each row
  BATCH_ITEM_SHAPE_FLATTEN,                  // [rows * rank]: the same
} backend_batch_kind;

typedef struct backend_batch_input {
  backend_batch_kind kind;
  TRITONSERVER_DataType datatype; // FP32 or INT32
  const char *source;             // the input that it is about
  const json_t *targets;          // names of the tensors that it is
  size_t target_count;
} backend_batch_input;

const char *backend_batch_target(const backend_batch_input *self, size_t index);

// Reads the list. `*list` is for free(), NULL with `*count` 0; the names belong to `config`.
TRITONSERVER_Error *backend_batch_inputs(const json_t *config, backend_batch_input **list,
                                         size_t *count);

// Makes the tensor of a batch in `buffer`: `sources` has the source input of each request, which
// counts nothing where it is absent. INVALID_ARG for a number that INT32 does not hold.
TRITONSERVER_Error *backend_batch_input_make(const backend_batch_input *self,
                                             const backend_input *sources, uint32_t request_count,
                                             backend_buffer *buffer, backend_shape *shape,
                                             size_t *byte_size);

// An output that has no batch dimension of its own: each response gets as many of its elements, in
// the requests' order, as its shape has (BATCH_SCATTER_WITH_INPUT_SHAPE).
typedef struct backend_batch_output {
  const char *name;
  const char *source;
  backend_shape dims; // the output's, with the batch's in front; -1: as in the source input
} backend_batch_output;

// Reads the list, an entry for each target. `*list` is for free(), NULL with `*count` 0; the names
// belong to `config`.
TRITONSERVER_Error *backend_batch_outputs(const json_t *config, backend_batch_output **list,
                                          size_t *count);

// The shape of the response to the request whose source input this is.
TRITONSERVER_Error *backend_scatter_shape(const backend_batch_output *self,
                                          const backend_input *source, backend_shape *shape);

#endif
