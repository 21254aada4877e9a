// SPDX-License-Identifier: Apache-2.0
// The libraries of CUDA and TensorRT that a provider of ONNX Runtime needs. Nothing says where they
// are: its file names them (elf_needs.h), and pip has put them beside ONNX Runtime's package. They
// are opened before the provider, those first that others need, so that the loader knows them by
// their names when ONNX Runtime opens the provider. Load threads.
#ifndef NEREID_ORT_PROVIDER_H
#define NEREID_ORT_PROVIDER_H

#include "triton/core/tritonbackend.h"

#include <stdbool.h>

typedef enum ort_provider_purpose {
  ORT_PROVIDER_FIND, // whether all are there; nothing is opened that is found
  ORT_PROVIDER_OPEN, // for good
} ort_provider_purpose;

// Is there a provider's library `file` in ONNX Runtime's directory?
bool ort_provider_exists(const char *dir, const char *file);

// UNAVAILABLE when something is missing, with all names, where was looked and what pip installs, or
// when a library does not open. Ones that may be missing (cuDNN, which only some models need) are a
// warning. What strangers may write is left alone, with `strict` what other users own.
TRITONSERVER_Error *ort_provider_libraries(const char *dir, const char *file, bool strict,
                                           ort_provider_purpose purpose);

#endif
