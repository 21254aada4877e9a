// Runs batches. One executor for each instance, used on that instance's thread only.
#ifndef NEREID_ONNX_EXECUTE_H
#define NEREID_ONNX_EXECUTE_H

#include "backend_tensor.h"
#include "onnx_model.h"

typedef struct onnx_executor onnx_executor;

// `model` is borrowed.
TRITONSERVER_Error *onnx_executor_new(onnx_model *model, TRITONBACKEND_ModelInstance *instance,
                                      onnx_executor **result);
void onnx_executor_free(onnx_executor *self);

// TRITONBACKEND_ModelInstanceExecute.
TRITONSERVER_Error *onnx_execute(onnx_executor *self, TRITONBACKEND_ModelInstance *instance,
                                 TRITONBACKEND_Request **requests, uint32_t count);

#endif
