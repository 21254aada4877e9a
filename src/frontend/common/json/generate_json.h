// SPDX-License-Identifier: Apache-2.0
// The JSON of the generate extension: one flat object each way. A member named as an input is that
// input's value, any other is a parameter of the request; the object `parameters` holds more of
// both. Pure functions: memory is from the caller's arena. Any thread.
#ifndef NEREID_FRONTEND_COMMON_JSON_GENERATE_JSON_H
#define NEREID_FRONTEND_COMMON_JSON_GENERATE_JSON_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/slice.h"
#include "frontend/common/json/infer_request_json.h"
#include "frontend/common/json/infer_response_json.h"

#include <stddef.h>
#include <stdint.h>

// An input in the model's metadata.
typedef struct generate_input {
  const char *name;
  TRITONSERVER_DataType datatype;
  const int64_t *shape; // -1: variable, as is the batch dimension
  size_t shape_count;
} generate_input;

typedef struct generate_inputs {
  generate_input *items;
  size_t count;
} generate_inputs;

// Reads the inputs from a model's metadata (GET /v2/models/{model}). 16 zeroes must follow the
// text. The result is in the arena.
error *generate_inputs_read(slice metadata, arena *a, generate_inputs *out);

// Reads a request for a model with these inputs into id, inputs and parameters of `out`. An empty
// text counts as an empty object. A value is one element or an array. Its elements fill the input's
// fixed dimensions; the rest is the innermost variable dimension, and other variable ones are 1. An
// empty array needs a variable dimension, which is then 0. `id` is the request's id and is treated
// as any other member too, as in Triton. What must follow the text, and errors: see
// infer_request_json_read.
error *generate_request_json_read(slice text, const generate_inputs *inputs, size_t max_data_size,
                                  arena *a, infer_request_json *out);

// Appends the reply: id, model_name, model_version, parameters and outputs by name, sorted by
// bytes. An output of one element is a scalar. Of equal names, the first in that list is kept.
// Errors: see infer_response_json_write.
error *generate_response_json_write(const infer_response_json *response, arena *a, buffer *out);

#endif
