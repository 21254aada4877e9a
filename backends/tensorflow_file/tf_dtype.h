// SPDX-License-Identifier: Apache-2.0
// TensorFlow's types of elements: protobuf's DataType, which the C interface uses too. Pure.
#ifndef NEREID_TF_DTYPE_H
#define NEREID_TF_DTYPE_H

#include "triton/core/tritonbackend.h"

#define TF_DTYPE_STRING 7

TRITONSERVER_DataType tf_datatype(int dtype); // INVALID where the server has none
int tf_dtype(TRITONSERVER_DataType datatype); // 0 where TensorFlow has none
const char *tf_dtype_name(int dtype);         // "DT_FLOAT"

#endif
