// SPDX-License-Identifier: Apache-2.0
// NVML's library, found at run time like CUDA's driver; either may exist without the other. Any
// thread.
#ifndef NEREID_GPU_NVML_LIBRARY_H
#define NEREID_GPU_NVML_LIBRARY_H

#include "base/error.h"
#include "gpu/device.h"
#include "gpu/nvml.h"

typedef struct gpu_nvml {
#define FUNCTION(name, arguments) nvmlReturn_t(*name) arguments;
  NVML_FUNCTIONS(FUNCTION, FUNCTION) // optional ones may be NULL
#undef FUNCTION
} gpu_nvml;

// Opens libnvidia-ml.so.1, once, and starts it. Starts are counted: call gpu_nvml_close for each.
// Errors: NOT_FOUND without the library, UNAVAILABLE when it lacks a function or does not start.
error *gpu_nvml_open(const gpu_nvml **nvml);
void gpu_nvml_close(const gpu_nvml *nvml);

// NVML's handle of the device or MIG slice; the second, of the board that it is on. False: NVML
// does not know it.
bool gpu_nvml_find(const gpu_nvml *nvml, const gpu_device *device, nvmlDevice_t *found);
bool gpu_nvml_find_board(const gpu_nvml *nvml, const gpu_device *device, nvmlDevice_t *found);

#endif
