// SPDX-License-Identifier: Apache-2.0
// The CUDA and TensorRT libraries that an ONNX Runtime provider needs. The provider's file only
// names them (elf_needs.h), and pip installs them beside ONNX Runtime's package. They are opened
// before the provider, dependencies first, so that the loader knows their names when ONNX Runtime
// opens the provider. Load threads.
#ifndef NEREID_ORT_PROVIDER_H
#define NEREID_ORT_PROVIDER_H

#include "triton/core/tritonbackend.h"

#include <stdbool.h>

typedef enum ort_provider_purpose {
  ORT_PROVIDER_FIND, // checks whether all exist; opens none for good
  ORT_PROVIDER_OPEN, // opens them for good
} ort_provider_purpose;

// Whether ONNX Runtime's directory has the provider's library `file`.
bool ort_provider_exists(const char *dir, const char *file);

// UNAVAILABLE when a library is missing (with all names, the places searched and the pip packages),
// does not open, or ONNX Runtime's own file is unsafe. Files that strangers may write, or with
// `strict` that other users own, are not used. ORT_PROVIDER_OPEN warns once a process when a
// library is missing that only some models need (cuDNN, cuFFT, NVRTC).
TRITONSERVER_Error *ort_provider_libraries(const char *dir, const char *file, bool strict,
                                           ort_provider_purpose purpose);

#endif
