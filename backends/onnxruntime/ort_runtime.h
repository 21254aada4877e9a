// SPDX-License-Identifier: Apache-2.0
// An ONNX Runtime library that was found and opened: its functions, its environment, its errors.
// Opened while a model loads, used by all models and threads, closed when the backend ends.
#ifndef NEREID_ORT_RUNTIME_H
#define NEREID_ORT_RUNTIME_H

#include "framework.h"
#include "ort_api.h"

typedef struct ort_runtime {
  ort_api api;
  ort_gpu_api gpu; // where has_gpu_api
  bool has_gpu_api;
  ort_add_data_files *add_data_files; // AddExternalInitializersFromFilesInMemory; NULL before 1.18
  const char *path;                   // the library's
  char *dir;                          // where it lies; NULL when the loader does not tell
  const char *version;                // "1.20.1", ONNX Runtime's own string
  ort_env *env;
  ort_memory_info *cpu_memory;
  ort_allocator *allocator; // ONNX Runtime's, not ours to free
  bool global_threads;
  bool strict; // what other users own is left alone
} ort_runtime;

// The one that a model runs on.
static inline const ort_runtime *onnx_runtime_of(const framework_model *model)
{
  return model->library->state;
}

// Settings of the environment, the same for all libraries of a process.
typedef struct ort_runtime_settings {
  bool global_threads; // one pool for all sessions of a library
  int64_t intra_op_threads;
  int64_t inter_op_threads;
  bool spin;
  bool strict; // as of the search for frameworks
} ort_runtime_settings;

// Opens the library at `library->path`; a name without a slash is left to the loader. NOT_FOUND
// when there is no such library, UNSUPPORTED when it is no ONNX Runtime or one that is too old.
TRITONSERVER_Error *ort_runtime_open(framework_library *library);

// Ends the environment; no session may be left. The library stays in the process: threads of its
// own may still be on their way out.
void ort_runtime_close(framework_library *library);

// "onnx runtime error <code>: <message>", INTERNAL, as Triton words it; takes the status. NULL for
// success.
TRITONSERVER_Error *ort_error(const ort_runtime *runtime, ort_status *status_owned);

#define ORT_RETURN_IF_ERROR(runtime, call) BACKEND_RETURN_IF_ERROR(ort_error(runtime, call))

// Whether instances can be on a GPU: UNSUPPORTED with what the library lacks (it is the CPU's
// wheel, or older than 1.16), UNAVAILABLE with the libraries of CUDA that are missing beside it. It
// looks for them and opens none.
TRITONSERVER_Error *ort_runtime_check_gpu(const ort_runtime *runtime);
// The same of one provider ("CUDAExecutionProvider"), whose libraries are opened.
TRITONSERVER_Error *ort_runtime_open_provider(const ort_runtime *runtime, const char *provider);

// Is the execution provider `name` built in? `*all` gets a text with all of them, for free().
TRITONSERVER_Error *ort_runtime_has_provider(const ort_runtime *runtime, const char *name,
                                             bool *found, char **all);

#endif
