// SPDX-License-Identifier: Apache-2.0
// An opened ONNX Runtime library: its functions, its environment, its errors. Opened while a model
// loads, used by all models and threads, closed when the backend ends.
#ifndef NEREID_ORT_RUNTIME_H
#define NEREID_ORT_RUNTIME_H

#include "framework.h"
#include "ort_api.h"

typedef struct ort_runtime {
  ort_api api;
  ort_gpu_api gpu; // valid if has_gpu_api
  bool has_gpu_api;
  ort_add_data_files *add_data_files; // AddExternalInitializersFromFilesInMemory; NULL before 1.18
  const char *path;                   // borrowed from the framework_library
  char *dir;                          // the library's directory, owned; NULL: unknown
  const char *version;                // "1.20.1", ONNX Runtime's own string
  ort_env *env;
  ort_memory_info *cpu_memory;
  ort_allocator *allocator; // owned by ONNX Runtime
  bool global_threads;
  bool strict; // files that other users own are not used
} ort_runtime;

// The library of a model.
static inline const ort_runtime *onnx_runtime_of(const framework_model *model)
{
  return model->library->state;
}

// Settings of the environment, equal for all libraries of a process.
typedef struct ort_runtime_settings {
  bool global_threads; // one pool for all sessions of a library
  int64_t intra_op_threads;
  int64_t inter_op_threads;
  bool spin;
  bool strict; // as in ort_runtime
} ort_runtime_settings;

// Opens the library at `library->path`; a name without a slash is left to the loader. NOT_FOUND
// when there is no such library, UNSUPPORTED when it is not ONNX Runtime or too old. After an
// error too the caller must call ort_runtime_close.
TRITONSERVER_Error *ort_runtime_open(framework_library *library);

// Ends the environment; no session may be left. The library stays in the process, because its
// threads may still be ending.
void ort_runtime_close(framework_library *library);

// INTERNAL, "onnx runtime error <code>: <message>", as in Triton; takes the status. NULL for
// success.
TRITONSERVER_Error *ort_error(const ort_runtime *runtime, ort_status *status_owned);

#define ORT_RETURN_IF_ERROR(runtime, call) BACKEND_RETURN_IF_ERROR(ort_error(runtime, call))

// Whether instances can be on a GPU. UNSUPPORTED says why the library cannot (it is the CPU's
// wheel, or older than 1.16); UNAVAILABLE names missing CUDA libraries. It opens none for good.
TRITONSERVER_Error *ort_runtime_check_gpu(const ort_runtime *runtime);
// Checks one provider ("CUDAExecutionProvider") in the same way, and opens its libraries for good.
TRITONSERVER_Error *ort_runtime_open_provider(const ort_runtime *runtime, const char *provider);

// Whether the execution provider `name` is built in. `*all`: the names of all, for free(); may be
// NULL when memory is short.
TRITONSERVER_Error *ort_runtime_has_provider(const ort_runtime *runtime, const char *name,
                                             bool *found, char **all);

#endif
