// SPDX-License-Identifier: Apache-2.0
// The table of element types. Called from load threads and from the request path; constant.
#include "config/datatype.h"

#include <stddef.h>

static const datatype rows[] = {
    {1, "TYPE_BOOL", "BOOL", 1},     {2, "TYPE_UINT8", "UINT8", 1},
    {3, "TYPE_UINT16", "UINT16", 2}, {4, "TYPE_UINT32", "UINT32", 4},
    {5, "TYPE_UINT64", "UINT64", 8}, {6, "TYPE_INT8", "INT8", 1},
    {7, "TYPE_INT16", "INT16", 2},   {8, "TYPE_INT32", "INT32", 4},
    {9, "TYPE_INT64", "INT64", 8},   {10, "TYPE_FP16", "FP16", 2},
    {11, "TYPE_FP32", "FP32", 4},    {12, "TYPE_FP64", "FP64", 8},
    {13, "TYPE_STRING", "BYTES", 0}, {14, "TYPE_BF16", "BF16", 2},
};

const datatype *datatype_by_value(int value)
{
  if (value < 1 || (size_t)value > sizeof(rows) / sizeof(rows[0]))
    return NULL;
  return &rows[value - 1];
}
