// The backend's state: its settings and the ONNX Runtime libraries that its models use. Lives from
// TRITONBACKEND_Initialize to TRITONBACKEND_Finalize; models load on several threads at once.
#ifndef NEREID_ONNX_BACKEND_H
#define NEREID_ONNX_BACKEND_H

#include "ort_runtime.h"

#include <jansson.h>

typedef struct onnx_backend onnx_backend;

// Reads the settings and opens the default library, if there is one: that it is missing matters
// only to a model that needs it.
TRITONSERVER_Error *onnx_backend_new(TRITONBACKEND_Backend *backend, onnx_backend **result);

// All models must be gone.
void onnx_backend_free(onnx_backend *self);

// The library for a model: the one that its parameter onnxruntime_library names, else the default.
// Borrowed from the backend.
TRITONSERVER_Error *onnx_backend_runtime(onnx_backend *self, const json_t *model_config,
                                         ort_runtime **runtime);

// max_batch_size for models that batch and do not say how much.
int64_t onnx_backend_default_max_batch_size(const onnx_backend *self);

#endif
