// SPDX-License-Identifier: Apache-2.0
// CUDA's driver, found at run time: the first caller opens libcuda.so.1, which stays open. Each
// library that contains this layer (the server, the daemon, a backend, a Python worker) has its own
// table; the driver and its primary contexts are shared. Any thread.
#ifndef NEREID_GPU_DRIVER_H
#define NEREID_GPU_DRIVER_H

#include "base/error.h"
#include "gpu/cuda.h"

#include <stdbool.h>

typedef struct gpu_driver {
#define FUNCTION(name, arguments) CUresult(*name) arguments;
  CUDA_FUNCTIONS(FUNCTION, FUNCTION) // optional ones may be NULL
#undef FUNCTION
  int version; // 13000: CUDA 13.0
} gpu_driver;

// Opens the driver and initialises it (cuInit), once; later calls return the same result. Errors:
// NOT_FOUND when there is no libcuda.so.1 or no device, UNAVAILABLE when it lacks a function,
// INTERNAL, with the driver's text, when it does not start. May take 300 ms.
error *gpu_driver_open(const gpu_driver **driver);
// Does not open the driver: NULL until gpu_driver_open has succeeded.
const gpu_driver *gpu_driver_opened(void);

// "<what>: <the driver's text> (CUDA_ERROR_NAME)"; NULL for CUDA_SUCCESS. OUT_OF_MEMORY becomes
// UNAVAILABLE, NOT_SUPPORTED becomes UNSUPPORTED, all others INTERNAL.
error *gpu_error(CUresult code, const char *what, ...) __attribute__((format(printf, 2, 3)));
const char *gpu_error_text(CUresult code); // as cudaGetErrorString's; static
const char *gpu_error_name(CUresult code); // "CUDA_ERROR_…"; static

// Whether the result means that the context is dead: every later call of the process fails.
bool gpu_error_is_sticky(CUresult code);

#endif
