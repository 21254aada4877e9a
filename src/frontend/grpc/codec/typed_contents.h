// SPDX-License-Identifier: Apache-2.0
// inference.InferTensorContents: a tensor whose elements are in fields by type. A field may come in
// any number of pieces, so it is read twice, to count the elements and to write them. Pure.
#ifndef NEREID_FRONTEND_GRPC_CODEC_TYPED_CONTENTS_H
#define NEREID_FRONTEND_GRPC_CODEC_TYPED_CONTENTS_H

#include "base/error.h"
#include "base/slice.h"
#include "triton/core/tritonserver.h"

#include <stddef.h>
#include <stdint.h>

#define TYPED_CONTENTS_FIELDS 9 // numbers 1 to 8

// The counts. Starts zeroed.
typedef struct typed_contents {
  size_t counts[TYPED_CONTENTS_FIELDS]; // elements, by field number
  size_t bytes;                         // sum of the bytes_contents
  size_t runs;                          // pieces of fp32_contents and fp64_contents
  slice run;                            // the last packed one of these
} typed_contents;

// Adds the elements in `message`. INVALID_ARG when it is malformed.
error *typed_contents_count(slice message, typed_contents *t);

// The field for a tensor of that type; 0 when there are no elements. INVALID_ARG in Triton's words
// for elements of another type, or in several fields.
error *typed_contents_field(const typed_contents *t, TRITONSERVER_DataType datatype,
                            const char *input, const char *model, uint32_t *field);

// Bytes of the tensor; SIZE_MAX when they overflow.
size_t typed_contents_size(const typed_contents *t, TRITONSERVER_DataType datatype, uint32_t field);

// The tensor's bytes in the message, if they are in one piece and aligned to an element's size;
// else no data.
slice typed_contents_in_place(const typed_contents *t, TRITONSERVER_DataType datatype,
                              uint32_t field);

// Writes the elements in `message` and moves *to behind them. They must have been counted.
error *typed_contents_write(slice message, TRITONSERVER_DataType datatype, uint32_t field,
                            char **to);

#endif
