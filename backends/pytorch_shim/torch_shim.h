// SPDX-License-Identifier: Apache-2.0
// The shim for TorchScript (shim.h): taken from beside the backend, from the cache, or compiled for
// the PyTorch that is installed. Load threads.
#ifndef NEREID_TORCH_SHIM_H
#define NEREID_TORCH_SHIM_H

#include "shim.h"
#include "triton/core/tritonserver.h"

typedef struct torch_shim {
#define TORCH_SHIM_MEMBER(result, name, arguments) result(*name) arguments;
  NEREID_TORCH_FUNCTIONS(TORCH_SHIM_MEMBER)
#undef TORCH_SHIM_MEMBER
} torch_shim;

// What a shim is made for.
typedef struct torch_shim_wanted {
  const char *library;   // the path of libtorch_cpu.so
  const char *version;   // "2.15.0+cu132"
  int cxx11;             // of std::string
  const char *cache_dir; // NULL: in the home directory
  const char *compiler;  // NULL: what PATH has
} torch_shim_wanted;

// Finds or makes it, which may take half a minute. UNAVAILABLE: what was tried, and what can be
// done. It stays in the process.
TRITONSERVER_Error *torch_shim_open(const torch_shim_wanted *wanted, torch_shim *shim);

#endif
