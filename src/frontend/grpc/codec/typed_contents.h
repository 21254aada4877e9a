// SPDX-License-Identifier: Apache-2.0
// inference.InferTensorContents: a tensor whose elements are fields of a message, by type. Read
// twice, to count them and to write them, as a field may stand in any number of pieces. Pure.
#ifndef NEREID_FRONTEND_GRPC_CODEC_TYPED_CONTENTS_H
#define NEREID_FRONTEND_GRPC_CODEC_TYPED_CONTENTS_H

#include "base/error.h"
#include "base/slice.h"
#include "triton/core/tritonserver.h"

#include <stddef.h>
#include <stdint.h>

#define TYPED_CONTENTS_FIELDS 9 // numbers 1 to 8

// What is there. Zeroed is nothing.
typedef struct typed_contents {
  size_t counts[TYPED_CONTENTS_FIELDS]; // elements, by number of the field
  size_t bytes;                         // of the elements of bytes_contents together
  size_t runs;                          // pieces of fp32_contents and fp64_contents
  slice run;                            // the last of them that is packed
} typed_contents;

// Adds what `message` holds. INVALID_ARG when it is broken.
error *typed_contents_count(slice message, typed_contents *t);

// Which field a tensor of that type comes from: 0 when nothing is there. INVALID_ARG, in Triton's
// words, when it is another one than the type wants, or several.
error *typed_contents_field(const typed_contents *t, TRITONSERVER_DataType datatype,
                            const char *input, const char *model, uint32_t *field);

// Bytes of the tensor. SIZE_MAX when they cannot be.
size_t typed_contents_size(const typed_contents *t, TRITONSERVER_DataType datatype, uint32_t field);

// The tensor's bytes within the message, where it has them in one piece and aligned to the size of
// an element; else no data.
slice typed_contents_in_place(const typed_contents *t, TRITONSERVER_DataType datatype,
                              uint32_t field);

// Writes the elements that `message` has, and moves *to behind them. `message` was counted before.
error *typed_contents_write(slice message, TRITONSERVER_DataType datatype, uint32_t field,
                            char **to);

#endif
