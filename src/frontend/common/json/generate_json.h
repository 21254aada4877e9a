// SPDX-License-Identifier: Apache-2.0
// The JSON of the generate extension: one flat object each way. A member with the name of an input
// is that input's value, any other one is a parameter of the request; the object `parameters` holds
// more of both. Pure functions: memory comes from the caller's arena. Any thread.
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

// An input as the model's metadata has it.
typedef struct generate_input {
  const char *name;
  TRITONSERVER_DataType datatype;
  const int64_t *shape; // -1: variable, the batch dimension too
  size_t shape_count;
} generate_input;

typedef struct generate_inputs {
  generate_input *items;
  size_t count;
} generate_inputs;

// Reads the inputs out of a model's metadata (GET /v2/models/{model}). 16 zeroes stand behind the
// text. What it returns are views of the arena.
error *generate_inputs_read(slice metadata, arena *a, generate_inputs *out);

// Reads a request for a model with these inputs into id, inputs and parameters of `out`. An empty
// text is an object without members. A value is one element or an array of them: its shape is the
// input's, with the number of elements in the innermost variable dimension and 1 in the others. An
// empty array has no shape. `id` is the request's id and is mapped like every other member too, as
// Triton does. The text must end as infer_request_json_read says, and errors are as there.
error *generate_request_json_read(slice text, const generate_inputs *inputs, size_t max_data_size,
                                  arena *a, infer_request_json *out);

// Appends the reply: id, model_name, model_version, parameters and outputs by name, in the order
// of their bytes. An output of one element is a scalar. Where names are equal, the first of that
// list is kept. Errors as of infer_response_json_write.
error *generate_response_json_write(const infer_response_json *response, arena *a, buffer *out);

#endif
