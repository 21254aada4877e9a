// SPDX-License-Identifier: Apache-2.0
// PyTorch's element types, by their number in its C interface. Pure.
#ifndef NEREID_TORCH_TYPES_H
#define NEREID_TORCH_TYPES_H

#include "triton/core/tritonserver.h"

#include <stdint.h>

// -1: PyTorch has no such type, or requests cannot bring it.
int32_t torch_type_of(TRITONSERVER_DataType type);
TRITONSERVER_DataType torch_datatype_of(int32_t type); // INVALID: the server has no such type

#endif
