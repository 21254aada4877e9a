// SPDX-License-Identifier: Apache-2.0
// The shim for TorchScript (shim.h): from beside the backend, from the cache, or compiled for the
// installed PyTorch. Load threads.
#ifndef NEREID_TORCH_SHIM_H
#define NEREID_TORCH_SHIM_H

#include "shim.h"
#include "triton/core/tritonserver.h"

typedef struct torch_shim {
#define TORCH_SHIM_MEMBER(result, name, arguments) result(*name) arguments;
  NEREID_TORCH_FUNCTIONS(TORCH_SHIM_MEMBER)
#undef TORCH_SHIM_MEMBER
} torch_shim;

// What the shim must fit.
typedef struct torch_shim_wanted {
  const char *library;   // the path of libtorch_cpu.so
  const char *version;   // "2.15.0+cu132"
  int cxx11;             // of std::string
  const char *cache_dir; // NULL: in the home directory
  const char *compiler;  // NULL: searched in PATH
} torch_shim_wanted;

// Finds or compiles the shim, which may take half a minute. UNAVAILABLE says what was tried and
// what can be done. The shim stays in the process.
TRITONSERVER_Error *torch_shim_open(const torch_shim_wanted *wanted, torch_shim *shim);

#endif
