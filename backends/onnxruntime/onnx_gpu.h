// SPDX-License-Identifier: Apache-2.0
// An instance on a GPU: its session computes on the instance's stream, from and to memory of the
// device, by an IoBinding. Nothing here waits. With CUDA graphs the tensors have places of their
// own that stay the same, and each number of rows is a graph. See onnx_model.h for threads.
#ifndef NEREID_ONNX_GPU_H
#define NEREID_ONNX_GPU_H

#include "onnx_model.h"

typedef struct onnx_gpu onnx_gpu;

// What the run feeds and fetches, in its arena.
typedef struct onnx_run {
  const char **feed_names;
  ort_value **feeds;
  size_t feed_count;
  const char **fetch_names;
  ort_value **fetched; // as run->fetches
  ort_value **bound;   // on a GPU: outputs that have memory already; those of a graph are fetched
  size_t bound_most;
} onnx_run;

// Fills in session, options and gpu. What was made is freed by onnx_gpu_free, which does nothing
// for an instance on the CPU.
TRITONSERVER_Error *onnx_gpu_new(framework_instance *instance, onnx_instance *self);
void onnx_gpu_free(framework_instance *instance, onnx_instance *self);

// The memory and the address of an input that is on the device.
TRITONSERVER_Error *onnx_gpu_input(framework_run *run, const framework_input *input,
                                   const ort_memory_info **memory, const void **data);
// Enqueues the run and fills in what was fetched.
TRITONSERVER_Error *onnx_gpu_compute(framework_run *run);
void onnx_gpu_end(framework_run *run);

#endif
