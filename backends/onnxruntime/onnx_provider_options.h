// SPDX-License-Identifier: Apache-2.0
// A configuration's options for ONNX Runtime's GPU providers: the gpu_execution_accelerator entries
// "cuda" and "tensorrt", and the parameters of older configurations. Texts and names are Triton's
// and ONNX Runtime's. Load threads.
#ifndef NEREID_ONNX_PROVIDER_OPTIONS_H
#define NEREID_ONNX_PROVIDER_OPTIONS_H

#include "backend_config.h"
#include "base/string_list.h"

// Keys and values, as the C API takes them. Zero-initialised: empty.
typedef struct onnx_provider_options {
  string_list keys, values;
} onnx_provider_options;

void onnx_provider_options_fini(onnx_provider_options *self);

// The accelerators in "gpu_execution_accelerator"; NULL when there are none.
const json_t *onnx_gpu_accelerators(const json_t *config);

// For the CUDA provider, which every instance on a GPU has. If an option is given twice, the older
// parameter counts.
TRITONSERVER_Error *onnx_cuda_options(const json_t *config, int device,
                                      onnx_provider_options *options);

// For the TensorRT provider, from one entry of the list.
TRITONSERVER_Error *onnx_tensorrt_options(const json_t *accelerator, int device,
                                          onnx_provider_options *options);

// Whether a provider must capture CUDA graphs, which replay at the addresses of the first run.
bool onnx_wants_graphs(const json_t *config);

// The entries for `device` (-1: the CPU) in a list such as "cpu:0;gpu:0;gpu:1"
// (memory.enable_memory_arena_shrinkage): ONNX Runtime refuses runs that name another device. For
// free(); "" when none is left, NULL when memory is short.
char *onnx_arenas_of(const char *list, int device);

#endif
