// SPDX-License-Identifier: Apache-2.0
// Element types.
#include "tf_dtype.h"

#include <stddef.h>

// By TensorFlow's number.
#define TYPE(name, datatype)                                                                       \
  {                                                                                                \
    "DT_" #name, TRITONSERVER_TYPE_##datatype                                                      \
  }
static const struct {
  const char *name;
  TRITONSERVER_DataType datatype;
} types[] = {TYPE(INVALID, INVALID),    TYPE(FLOAT, FP32),      TYPE(DOUBLE, FP64),
             TYPE(INT32, INT32),        TYPE(UINT8, UINT8),     TYPE(INT16, INT16),
             TYPE(INT8, INT8),          TYPE(STRING, BYTES),    TYPE(COMPLEX64, INVALID),
             TYPE(INT64, INT64),        TYPE(BOOL, BOOL),       TYPE(QINT8, INVALID),
             TYPE(QUINT8, INVALID),     TYPE(QINT32, INVALID),  TYPE(BFLOAT16, BF16),
             TYPE(QINT16, INVALID),     TYPE(QUINT16, INVALID), TYPE(UINT16, UINT16),
             TYPE(COMPLEX128, INVALID), TYPE(HALF, FP16),       TYPE(RESOURCE, INVALID),
             TYPE(VARIANT, INVALID),    TYPE(UINT32, UINT32),   TYPE(UINT64, UINT64)};
#define TYPE_COUNT (sizeof(types) / sizeof(types[0]))

TRITONSERVER_DataType tf_datatype(int dtype)
{
  return dtype >= 0 && (size_t)dtype < TYPE_COUNT ? types[dtype].datatype
                                                  : TRITONSERVER_TYPE_INVALID;
}

int tf_dtype(TRITONSERVER_DataType datatype)
{
  for (size_t i = 1; i < TYPE_COUNT; i++)
    if (types[i].datatype == datatype && datatype != TRITONSERVER_TYPE_INVALID)
      return (int)i;
  return 0;
}

const char *tf_dtype_name(int dtype)
{
  return dtype >= 0 && (size_t)dtype < TYPE_COUNT ? types[dtype].name : "an unknown one";
}
