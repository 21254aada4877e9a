// SPDX-License-Identifier: Apache-2.0
// A session's signature (names, types and shapes of inputs, outputs and overridable initializers),
// and the conversion of element types. Read once when the model loads.
#ifndef NEREID_ONNX_TYPES_H
#define NEREID_ONNX_TYPES_H

#include "framework.h"
#include "ort_runtime.h"

TRITONSERVER_Error *onnx_signature_read(const ort_runtime *runtime, const ort_session *session,
                                        framework_signature *signature);

TRITONSERVER_DataType onnx_datatype(ort_element_type type); // TRITONSERVER_TYPE_INVALID: none
ort_element_type onnx_element_type(TRITONSERVER_DataType datatype);

#endif
