// SPDX-License-Identifier: Apache-2.0
// What a model's configuration says to the providers of ONNX Runtime that run on a GPU: the
// gpu_execution_accelerator entries "cuda" and "tensorrt", and the parameters of older
// configurations. Texts and names of options are Triton's and ONNX Runtime's. Load threads.
#ifndef NEREID_ONNX_PROVIDER_OPTIONS_H
#define NEREID_ONNX_PROVIDER_OPTIONS_H

#include "backend_config.h"
#include "base/string_list.h"

// Pairs, as the C API takes them. Zero-initialised is empty.
typedef struct onnx_provider_options {
  string_list keys, values;
} onnx_provider_options;

void onnx_provider_options_fini(onnx_provider_options *self);

// The accelerators of the list "gpu_execution_accelerator"; NULL where there are none.
const json_t *onnx_gpu_accelerators(const json_t *config);

// For the CUDA provider, which every instance on a GPU has. An option that is given twice: the
// older parameter counts.
TRITONSERVER_Error *onnx_cuda_options(const json_t *config, int device,
                                      onnx_provider_options *options);

// For the TensorRT provider, of one entry of the list.
TRITONSERVER_Error *onnx_tensorrt_options(const json_t *accelerator, int device,
                                          onnx_provider_options *options);

// Whether a provider is to capture CUDA graphs, which replay at the addresses of the first run.
bool onnx_wants_graphs(const json_t *config);

// Of a list such as "cpu:0;gpu:0;gpu:1" (memory.enable_memory_arena_shrinkage) what a session has
// that runs on `device` (-1: the CPU): ONNX Runtime refuses each run for another device. For
// free(); "" when nothing is left, NULL when memory is short.
char *onnx_arenas_of(const char *list, int device);

#endif
