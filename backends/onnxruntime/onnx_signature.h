// What a session says of its model: names, types and shapes of inputs, outputs and initializers
// that a request may override. Read once when the model loads.
#ifndef NEREID_ONNX_SIGNATURE_H
#define NEREID_ONNX_SIGNATURE_H

#include "backend_shape.h"
#include "ort_runtime.h"

typedef struct onnx_tensor {
  char *name;
  ort_kind kind; // the other members are set for ORT_KIND_TENSOR only
  ort_element_type element_type;
  backend_shape shape; // -1 where any size is allowed; rank 0 also when the model names no shape
} onnx_tensor;

typedef struct onnx_tensor_list {
  onnx_tensor *tensors;
  size_t count;
} onnx_tensor_list;

typedef struct onnx_signature {
  onnx_tensor_list inputs;
  onnx_tensor_list outputs;
  onnx_tensor_list initializers;
} onnx_signature;

TRITONSERVER_Error *onnx_signature_read(const ort_runtime *runtime, const ort_session *session,
                                        onnx_signature *signature);

void onnx_signature_fini(onnx_signature *signature);

// The tensor called `name`, NULL when there is none.
const onnx_tensor *onnx_tensor_find(const onnx_tensor_list *list, const char *name);

// UNSUPPORTED for a sequence, a map and whatever else is no tensor.
TRITONSERVER_Error *onnx_tensor_require(const onnx_tensor *tensor);

// --- Element types: ONNX Runtime's, the server's and the configuration's names for them.

TRITONSERVER_DataType onnx_datatype(ort_element_type type); // TRITONSERVER_TYPE_INVALID: none
const char *onnx_config_type(ort_element_type type);        // "TYPE_FP32", "TYPE_INVALID"

#endif
