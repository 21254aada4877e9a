// SPDX-License-Identifier: Apache-2.0
// Classification: instead of an output, the strings "value:index" or "value:index:label" of its
// largest elements. Shared by all front ends. Pure but for the labels, which the response's model
// has; any thread that owns the response.
#ifndef NEREID_FRONTEND_COMMON_JSON_CLASSIFICATION_H
#define NEREID_FRONTEND_COMMON_JSON_CLASSIFICATION_H

#include "base/buffer.h"
#include "base/error.h"
#include "frontend/common/json/infer_response_json.h"
#include "triton/core/tritonserver.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLASSIFICATION_MAX_ELEMENTS 1000000 // of a row, and strings of an output
#define CLASSIFICATION_MAX_BYTES    (64u << 20)

// An output as the model made it.
typedef struct class_scores {
  TRITONSERVER_InferenceResponse *response;
  uint32_t index;              // of the output
  bool has_rows;               // its first dimension is the batch's: each row has its own classes
  response_output_json output; // borrowed
} class_scores;

// What takes its place: a BYTES tensor.
typedef struct class_strings {
  buffer elements;  // each a length of four bytes and the text; the caller's to release
  int64_t shape[2]; // rows, where there are any, and classes
  size_t shape_count;
} class_strings;

// The `class_count` (1 or more) largest elements of each row, the largest first, of equal ones the
// one that comes first; NaN comes last. INVALID_ARG for types that are no numbers and for too many
// elements, INTERNAL when the size is not that of the shape.
error *classification_make(const class_scores *scores, uint64_t class_count,
                           class_strings *strings);

#endif
