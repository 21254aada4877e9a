// SPDX-License-Identifier: Apache-2.0
// Prints the JSON part of an inference reply (KServe v2) into a buffer; numbers directly from the
// tensors. Pure functions; any thread.
#ifndef NEREID_FRONTEND_COMMON_JSON_INFER_RESPONSE_JSON_H
#define NEREID_FRONTEND_COMMON_JSON_INFER_RESPONSE_JSON_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/parallel.h"
#include "frontend/common/json/infer_request_json.h"
#include "triton/core/tritonserver.h"

#include <stddef.h>
#include <stdint.h>

// Where an output's data is.
typedef enum response_data_form {
  RESPONSE_DATA_JSON,          // "data": [flat]
  RESPONSE_DATA_BINARY,        // parameters.binary_data_size
  RESPONSE_DATA_SHARED_MEMORY, // nowhere: the client knows the region
} response_data_form;

typedef struct response_output_json {
  const char *name;
  TRITONSERVER_DataType datatype;
  const int64_t *shape;
  size_t shape_count;
  const void *data; // borrowed; host memory
  size_t data_size; // bytes
  response_data_form form;
} response_output_json;

typedef struct infer_response_json {
  const char *id; // "" or NULL: no member
  const char *model_name;
  int64_t model_version;
  const request_parameter *parameters;
  size_t parameter_count;
  const response_output_json *outputs;
  size_t output_count;
} infer_response_json;

// The product of the shape. False when a dimension is negative or the product overflows.
bool response_output_count(const response_output_json *output, uint64_t *count);

// Appends the JSON text; `p` prints long tensors, or is NULL. Floats are the shortest text that
// reads back to the same value of their type; NaN and infinities are bare tokens; FP16 and BF16 are
// numbers; the bytes of BYTES elements stay as they are, UTF-8 or not. Errors: INTERNAL, naming the
// output, when its size does not fit its shape or a BYTES tensor is malformed; UNAVAILABLE when
// memory is short.
error *infer_response_json_write(const infer_response_json *response, const parallel *p,
                                 buffer *out);

#endif
