// Tensors as text for traces: elements in decimal, separated by commas, texts in quotes.
#ifndef NEREID_FRONTEND_TRACE_TENSOR_TEXT_H
#define NEREID_FRONTEND_TRACE_TENSOR_TEXT_H

#include "base/buffer.h"
#include "triton/core/tritonserver.h"

#include <stddef.h>
#include <stdint.h>

// Appends the elements that lie in `size` bytes at `base`, at most about `limit` bytes of text.
// False: there are more.
bool tensor_text_append(buffer *out, TRITONSERVER_DataType datatype, const void *base, size_t size,
                        size_t limit);

#endif
