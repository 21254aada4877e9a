// SPDX-License-Identifier: Apache-2.0
// The tensors of a model, precomputed from its configuration at load, so that checking a request
// reads no configuration. Immutable after the load except the counts of mismatches; shared by all
// threads.
#ifndef NEREID_REQUEST_SIGNATURE_H
#define NEREID_REQUEST_SIGNATURE_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/slice.h"
#include "base/string_map.h"
#include "config/config.h"
#include "config/padding_config.h"
#include "triton/core/tritonserver.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tensor_signature {
  slice name; // NUL-terminated
  TRITONSERVER_DataType datatype;
  const int64_t *dims; // without the batch dimension; -1: any size
  uint32_t dim_count;
  const int64_t *reshape; // the backend sees these instead of `dims`
  uint32_t reshape_count;
  const char *const *labels; // of an output's classes; "": none
  size_t label_count;
  bool has_reshape;
  bool optional;
  bool is_shape_tensor;
  bool is_non_linear_format;   // the backend checks the byte size
  bool must_match_in_batch;    // only requests with equal shapes (or contents) here share a batch
  const padded_tensor *padded; // NULL: never padded
} tensor_signature;

#define OUTPUT_NAMES_LOGGED 16

// Counts of outputs that were not as configured (output_check.h).
typedef struct output_mismatches {
  _Atomic(char *) names_logged[OUTPUT_NAMES_LOGGED]; // of unconfigured outputs; owned
  _Atomic uint64_t counts[];                         // of each output, then of unconfigured ones
} output_mismatches;

typedef struct model_signature {
  const char *correlation_name; // of the input for the sequence's id; NULL: none
  TRITONSERVER_DataType correlation_datatype;
  tensor_signature *inputs;
  size_t input_count;
  size_t required_input_count;
  tensor_signature *outputs;
  size_t output_count;
  int64_t max_batch_size;
  bool needs_batch_key; // an input must match in a batch, or is optional
  bool decoupled;
  bool omits_single_sizes;              // in outputs: see config/backend_traits.h
  bool strict_outputs;                  // refuses outputs that are not as configured
  output_mismatches *output_mismatches; // in `memory`
  padding_config *padding;              // owned; NULL: no padding
  string_map input_index;               // name → tensor_signature
  string_map output_index;
  arena memory;
} model_signature;

// Names and dims are copied; outputs are not strict.
error *signature_init(model_signature *s, const Inference__ModelConfig *config);
void signature_fini(model_signature *s);

// NULL when the model has no such tensor.
const tensor_signature *signature_find_input(const model_signature *s, slice name);
const tensor_signature *signature_find_output(const model_signature *s, slice name);

// Bytes of one element; 0 for BYTES, whose elements differ.
size_t datatype_byte_size(TRITONSERVER_DataType datatype);

// "FP32", or "<invalid>" for an unknown value.
const char *datatype_name(TRITONSERVER_DataType datatype);

// Appends "[1,-1,3]"; `batched`: with -1 in front, for the batch.
void signature_append_dims(buffer *text, const int64_t *dims, size_t count, bool batched);

// Whether `dims` match the configured ones: the same number of dims; -1 matches any.
bool signature_dims_match(const int64_t *configured, const int64_t *dims, size_t count);

// Product of the dims in *count. False when a dim is negative or the product does not fit.
bool shape_element_count(const int64_t *dims, size_t dim_count, int64_t *count);

// Bytes of a tensor; for BYTES with empty elements. False as above, with *size unchanged.
bool tensor_least_bytes(TRITONSERVER_DataType datatype, const int64_t *dims, size_t dim_count,
                        size_t *size);

#endif
