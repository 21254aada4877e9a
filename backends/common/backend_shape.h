// SPDX-License-Identifier: Apache-2.0
// A tensor's shape as a value: up to BACKEND_MAX_RANK dimensions, -1 for any size.
#ifndef NEREID_BACKEND_SHAPE_H
#define NEREID_BACKEND_SHAPE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "triton/core/tritonbackend.h"

#define BACKEND_MAX_RANK   64
#define BACKEND_SHAPE_TEXT 768

typedef struct backend_shape {
  size_t rank;
  int64_t dims[BACKEND_MAX_RANK];
} backend_shape;

// Copies `rank` dimensions. INVALID_ARG naming `what` when there are more than fit.
TRITONSERVER_Error *backend_shape_set(backend_shape *shape, const int64_t *dims, size_t rank,
                                      const char *what);

// Reads a JSON array of integers (or of numbers as text, as protobuf prints 64-bit values).
TRITONSERVER_Error *backend_shape_from_json(backend_shape *shape, const json_t *array,
                                            const char *what);

// Writes "[2,-1]" to `text`, which holds BACKEND_SHAPE_TEXT bytes, and returns `text`. A shape that
// does not fit ends in "...".
const char *backend_shape_text(const backend_shape *shape, char *text);

// The product of `rank` dimensions (1 for a scalar). False when a dimension is negative or the
// product does not fit.
bool backend_element_count(const int64_t *dims, size_t rank, size_t *count);

#endif
