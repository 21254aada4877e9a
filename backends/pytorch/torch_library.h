// SPDX-License-Identifier: Apache-2.0
// An opened PyTorch library: the C functions that are called, its version. Opened while the backend
// starts, used by all models and threads, never unloaded.
#ifndef NEREID_TORCH_LIBRARY_H
#define NEREID_TORCH_LIBRARY_H

#include "framework.h"
#include "torch_shim.h"

#include <pthread.h>

// PyTorch's tensor; the handle owns it.
typedef struct torch_tensor torch_tensor;

// X(result, name, arguments): the part of PyTorch's C interface for tensors. Functions return 0, or
// another number for an error.
#define TORCH_FUNCTIONS(X)                                                                         \
  X(int32_t, create_tensor_from_blob,                                                              \
    (void *data, int64_t rank, const int64_t *dims, const int64_t *strides, int64_t offset,        \
     int32_t type, int32_t device_type, int32_t device_index, torch_tensor **tensor))              \
  X(int32_t, delete_tensor_object, (torch_tensor * tensor_owned))                                  \
  X(int32_t, get_data_ptr, (torch_tensor * tensor, void **data))                                   \
  X(int32_t, get_dim, (torch_tensor * tensor, int64_t * rank))                                     \
  X(int32_t, get_sizes, (torch_tensor * tensor, int64_t * *dims))                                  \
  X(int32_t, get_strides, (torch_tensor * tensor, int64_t * *strides))                             \
  X(int32_t, get_dtype, (torch_tensor * tensor, int32_t * type))                                   \
  X(int32_t, get_device_type, (torch_tensor * tensor, int32_t * type))                             \
  X(void, grad_mode_set_enabled, (bool enabled))

typedef struct torch_api {
#define TORCH_MEMBER(result, name, arguments) result(*name) arguments;
  TORCH_FUNCTIONS(TORCH_MEMBER)
#undef TORCH_MEMBER
} torch_api;

// --backend-config=pytorch,...
typedef struct torch_settings {
  char *cache_dir; // owned; directory of shims; NULL: in the home directory
  char *compiler;  // owned; a path or a name for PATH; NULL: c++, g++ or clang++
} torch_settings;

typedef struct torch_library {
  torch_api api;
  const char *path; // of libtorch_cpu.so
  char version[64]; // "2.15.0+cu132"
  bool cxx11;       // std::string is C++11's; otherwise packages, which use that, do not run
  const torch_settings *settings;
  const char *(*last_error)(void); // text for a failed function above; NULL in old versions
  void (*set_threads)(int count);
  void (*init_threads)(void); // takes the number for the calling thread, too
  pthread_mutex_t lock;       // guards all below
  bool threads_set;           // by the first model, for the whole process
  bool shim_opened;
  torch_shim shim; // for TorchScript, opened by the first model that needs it
} torch_library;

TRITONSERVER_Error *torch_library_open(framework_library *library);
void torch_library_close(framework_library *library);

static inline torch_library *torch_library_of(const framework_model *model)
{
  return model->library->state;
}

// PyTorch's text for the last error of this thread, or a general text.
const char *torch_last_error(const torch_library *self);

#endif
