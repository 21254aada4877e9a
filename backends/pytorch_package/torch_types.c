// SPDX-License-Identifier: Apache-2.0
// Element types.
#include "torch_types.h"

#include <stddef.h>

static const struct {
  TRITONSERVER_DataType type;
  int32_t torch;
} types[] = {
    {TRITONSERVER_TYPE_UINT8, 0}, {TRITONSERVER_TYPE_INT8, 1},  {TRITONSERVER_TYPE_INT16, 2},
    {TRITONSERVER_TYPE_INT32, 3}, {TRITONSERVER_TYPE_INT64, 4}, {TRITONSERVER_TYPE_FP16, 5},
    {TRITONSERVER_TYPE_FP32, 6},  {TRITONSERVER_TYPE_FP64, 7},  {TRITONSERVER_TYPE_BOOL, 11},
    {TRITONSERVER_TYPE_BF16, 15},
};

int32_t torch_type_of(TRITONSERVER_DataType type)
{
  for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
    if (types[i].type == type)
      return types[i].torch;
  return -1;
}

TRITONSERVER_DataType torch_datatype_of(int32_t type)
{
  for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
    if (types[i].torch == type)
      return types[i].type;
  return TRITONSERVER_TYPE_INVALID;
}
