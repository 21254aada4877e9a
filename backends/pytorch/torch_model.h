// SPDX-License-Identifier: Apache-2.0
// A PyTorch model: a compiled package (torch_aoti) or TorchScript (pytorch_libtorch). framework.h
// says when and on which thread each step is called.
#ifndef NEREID_TORCH_MODEL_H
#define NEREID_TORCH_MODEL_H

#include "torch_library.h"

typedef struct torch_kind torch_kind;

// Common to both kinds: the beginning of each model's state.
typedef struct torch_model {
  const torch_kind *kind;
  size_t input_count; // arguments, or entries of the one dictionary
} torch_model;

// Common to both kinds: a run's state, in its arena.
typedef struct torch_run {
  framework_input *inputs; // by position; absent ones have no name
  void *state;             // the kind's own
} torch_run;

struct torch_kind {
  const char *file; // default file name
  TRITONSERVER_Error *(*load)(framework_model *model, int file, const char *path);
  TRITONSERVER_Error *(*prepare)(framework_model *model);
  void (*unload)(framework_model *model);
  TRITONSERVER_Error *(*instance_new)(framework_instance *instance);
  void (*instance_free)(framework_instance *instance);
  TRITONSERVER_Error *(*compute)(framework_run *run, torch_run *self);
  TRITONSERVER_Error *(*read_output)(framework_run *run, torch_run *self, size_t index,
                                     framework_output *output);
  void (*end)(framework_run *run, torch_run *self);
};

extern const torch_kind torch_compiled; // torch_compiled.c
extern const torch_kind torch_script;   // torch_script.c

static inline torch_model *torch_model_of(const framework_model *model)
{
  return model->state;
}

// torch_output.c: sets `output` to a tensor. It names `data` itself, or a copy in the run's arena
// if the elements are not contiguous. INVALID_ARG for a scalar or too many dimensions, INTERNAL for
// an impossible shape. An element type that the server lacks gives TRITONSERVER_TYPE_INVALID.
TRITONSERVER_Error *torch_output_set(framework_run *run, const char *name, int32_t type,
                                     const int64_t *dims, const int64_t *strides, size_t rank,
                                     const void *data, framework_output *output);

// torch_output.c: the strides of a contiguous tensor.
void torch_strides(const int64_t *dims, size_t rank, int64_t *strides);

#endif
