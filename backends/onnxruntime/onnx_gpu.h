// SPDX-License-Identifier: Apache-2.0
// An instance on a GPU. Its session computes on the instance's stream, with tensors in device
// memory, by an IoBinding. Nothing here waits. With CUDA graphs each tensor has a fixed place, and
// each number of rows has a graph. See onnx_model.h for threads.
#ifndef NEREID_ONNX_GPU_H
#define NEREID_ONNX_GPU_H

#include "onnx_model.h"

typedef struct onnx_gpu onnx_gpu;

// The run's inputs and outputs, in its arena.
typedef struct onnx_run {
  const char **feed_names;
  ort_value **feeds;
  size_t feed_count;
  const char **fetch_names;
  ort_value **fetched; // as run->fetches
  ort_value **bound;   // on a GPU: outputs with memory before the run; a graph's are fetched
  size_t bound_most;
} onnx_run;

// Sets session, options and gpu. onnx_gpu_free frees what was made, and does nothing for an
// instance on the CPU.
TRITONSERVER_Error *onnx_gpu_new(framework_instance *instance, onnx_instance *self);
void onnx_gpu_free(framework_instance *instance, onnx_instance *self);

// Memory and address of an input on the device.
TRITONSERVER_Error *onnx_gpu_input(framework_run *run, const framework_input *input,
                                   const ort_memory_info **memory, const void **data);
// Enqueues the run and sets the fetched outputs.
TRITONSERVER_Error *onnx_gpu_compute(framework_run *run);
void onnx_gpu_end(framework_run *run);

#endif
