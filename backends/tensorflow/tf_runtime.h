// SPDX-License-Identifier: Apache-2.0
// TensorFlow's library once it is open, and its errors. Any thread.
#ifndef NEREID_TF_RUNTIME_H
#define NEREID_TF_RUNTIME_H

#include "framework.h"
#include "tf_api.h"

#include <stdatomic.h>

// Of --backend-config=tensorflow.
typedef struct tf_settings {
  bool soft_placement;        // operators without a kernel for their device run on another
  double gpu_memory_fraction; // 0: as much as is needed
} tf_settings;

// A framework_library's state.
typedef struct tf_runtime {
  tf_api api;
  atomic_bool has_more_operators; // than TensorFlow's own: any model may use them
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

// TensorFlow's reason as an error, in one line; NULL when it says all is well. `path` is what was
// loaded, or NULL. `status` stays the caller's; NULL is that there was no memory for it.
TRITONSERVER_Error *tf_error(const tf_api *api, const tf_api_status *status, const char *path);

#endif
