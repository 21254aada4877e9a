// SPDX-License-Identifier: Apache-2.0
// TensorFlow's opened library, and its errors. Any thread.
#ifndef NEREID_TF_RUNTIME_H
#define NEREID_TF_RUNTIME_H

#include "framework.h"
#include "tf_api.h"

#include <stdatomic.h>

// Settings of --backend-config=tensorflow.
typedef struct tf_settings {
  bool soft_placement;        // an operator without a kernel for its device runs on another
  double gpu_memory_fraction; // 0: as needed
} tf_settings;

// A framework_library's state.
typedef struct tf_runtime {
  tf_api api;
  atomic_bool has_more_operators; // additional operators are loaded, which any model may use
} tf_runtime;

TRITONSERVER_Error *tf_runtime_open(framework_library *library);
void tf_runtime_close(framework_library *library);

static inline const tf_api *tf_api_of(const framework_model *model)
{
  return &((const tf_runtime *)model->library->state)->api;
}

static inline const tf_settings *tf_settings_of(const framework_model *model)
{
  return model->library->settings;
}

// TensorFlow's reason as an error, on one line; NULL when there is none. `path` is what was loaded,
// or NULL. The caller keeps `status`; NULL means that there was no memory for it.
TRITONSERVER_Error *tf_error(const tf_api *api, const tf_api_status *status, const char *path);

#endif
