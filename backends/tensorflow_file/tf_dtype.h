// SPDX-License-Identifier: Apache-2.0
// TensorFlow's element types: protobuf's DataType, also used by the C interface. Pure.
#ifndef NEREID_TF_DTYPE_H
#define NEREID_TF_DTYPE_H

#include "triton/core/tritonbackend.h"

#define TF_DTYPE_STRING 7

TRITONSERVER_DataType tf_datatype(int dtype); // INVALID: the server has no such type
int tf_dtype(TRITONSERVER_DataType datatype); // 0: TensorFlow has no such type
const char *tf_dtype_name(int dtype);         // "DT_FLOAT"

#endif
