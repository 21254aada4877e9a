// SPDX-License-Identifier: Apache-2.0
// Classification: replaces an output by the strings "value:index" or "value:index:label" of its
// largest elements. For all front ends. Pure, except for the labels, which the response's model
// has. Any thread that owns the response.
#ifndef NEREID_FRONTEND_COMMON_JSON_CLASSIFICATION_H
#define NEREID_FRONTEND_COMMON_JSON_CLASSIFICATION_H

#include "base/buffer.h"
#include "base/error.h"
#include "frontend/common/json/infer_response_json.h"
#include "triton/core/tritonserver.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLASSIFICATION_MAX_ELEMENTS 1000000 // in a row, and strings in an output
#define CLASSIFICATION_MAX_BYTES    (64u << 20)

// An output as the model made it.
typedef struct class_scores {
  TRITONSERVER_InferenceResponse *response;
  uint32_t index;              // of the output
  bool has_rows;               // the first dimension is the batch's, and each row is classified
  response_output_json output; // borrowed
} class_scores;

// The BYTES tensor that replaces the output.
typedef struct class_strings {
  buffer elements;  // each: a length of four bytes and the text; the caller releases it
  int64_t shape[2]; // rows, if any, and classes
  size_t shape_count;
} class_strings;

// Finds the `class_count` (1 or more) largest elements of each row, the largest first; of equal
// ones the first; NaN last. INVALID_ARG for types that are no numbers and for too many elements,
// INTERNAL when the size does not fit the shape.
error *classification_make(const class_scores *scores, uint64_t class_count,
                           class_strings *strings);

#endif
