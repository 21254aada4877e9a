// SPDX-License-Identifier: Apache-2.0
// PyTorch's types of elements, by the number that its C interface has for them. Pure.
#ifndef NEREID_TORCH_TYPES_H
#define NEREID_TORCH_TYPES_H

#include "triton/core/tritonserver.h"

#include <stdint.h>

// -1: PyTorch has none, or none that requests can bring.
int32_t torch_type_of(TRITONSERVER_DataType type);
TRITONSERVER_DataType torch_datatype_of(int32_t type); // INVALID where the server has none

#endif
