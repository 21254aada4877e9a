// SPDX-License-Identifier: Apache-2.0
// The element types of tensors, one row each. Constant; any thread may read them.
#ifndef NEREID_CONFIG_DATATYPE_H
#define NEREID_CONFIG_DATATYPE_H

#include "base/slice.h"

#include <stdint.h>

typedef struct datatype {
  int value; // the same number in inference.DataType (TYPE_*) and in TRITONSERVER_DataType
  const char *config_name; // "TYPE_FP32", in configurations
  const char *wire_name;   // "FP32", in KServe v2; "BYTES" for TYPE_STRING
  uint32_t byte_size;      // of one element; 0 for BYTES, whose elements carry their own lengths
} datatype;

// The row of a type, 1 to 14, or NULL when there is no such type (TYPE_INVALID has none).
const datatype *datatype_by_value(int value);

#endif
