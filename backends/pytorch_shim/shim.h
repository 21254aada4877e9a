// SPDX-License-Identifier: Apache-2.0
// The C side of shim.cc: TorchScript has no C interface, so this one is compiled against the
// PyTorch that is installed (torch_shim.c). Functions that fail give a text for free() and leave
// the rest as it was; NULL is success. Any thread; a module is run by one thread at a time unless
// its code keeps no state.
#ifndef NEREID_TORCH_SHIM_INTERFACE_H
#define NEREID_TORCH_SHIM_INTERFACE_H

#include <stddef.h>
#include <stdint.h>

#define NEREID_TORCH_SHIM 1 // counts changes of what follows

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nereid_torch_module nereid_torch_module;
typedef struct nereid_torch_result nereid_torch_result;

// What an argument of forward() is.
typedef enum nereid_torch_kind {
  NEREID_TORCH_TENSOR,
  NEREID_TORCH_LIST,
  NEREID_TORCH_DICT,
  NEREID_TORCH_OTHER
} nereid_torch_kind;

// Settings of a run, -1: as they are.
typedef struct nereid_torch_options {
  int optimize, inference_mode, cudnn;
  int jit_profiling, jit_executor, tensor_fuser;
} nereid_torch_options;

// A tensor that is lent, or a list of strings where `strings` is not NULL: the string i is between
// offsets[i] and offsets[i + 1].
typedef struct nereid_torch_value {
  const char *name; // as the key of a dictionary
  int32_t type;     // torch::ScalarType
  const int64_t *dims;
  const int64_t *strides; // of results
  size_t rank;
  const void *data;
  const char *strings;
  const size_t *offsets;
  size_t string_count;
} nereid_torch_value;

// X(result, name, arguments)
#define NEREID_TORCH_FUNCTIONS(X)                                                                  \
  X(int, interface, (void))                                                                        \
  X(const char *, version, (void)) /* of the PyTorch that it was compiled against */               \
  X(char *, set_interop_threads, (int count))                                                      \
  X(char *, load,                                                                                  \
    (const void *data, size_t size, int inference_mode, nereid_torch_module **module))             \
  X(void, unload, (nereid_torch_module * module))                                                  \
  X(size_t, argument_count, (const nereid_torch_module *module))                                   \
  X(int, argument_kind, (const nereid_torch_module *module, size_t index))                         \
  X(const char *, argument_name, (const nereid_torch_module *module, size_t index))                \
  X(const char *, argument_type, (const nereid_torch_module *module, size_t index))                \
  X(char *, run,                                                                                   \
    (nereid_torch_module * module, const nereid_torch_options *options,                            \
     const nereid_torch_value *inputs, size_t count, int as_dictionary,                            \
     nereid_torch_result **result))                                                                \
  X(size_t, result_count, (const nereid_torch_result *result))                                     \
  X(void, result_get, (nereid_torch_result * result, size_t index, nereid_torch_value * value))    \
  X(void, result_free, (nereid_torch_result * result))

#define NEREID_TORCH_DECLARE(result, name, arguments) result nereid_torch_##name arguments;
NEREID_TORCH_FUNCTIONS(NEREID_TORCH_DECLARE)
#undef NEREID_TORCH_DECLARE

#ifdef __cplusplus
}
#endif

#endif
