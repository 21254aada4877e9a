// SPDX-License-Identifier: Apache-2.0
// The files beside a model's file as memory, for external data that ONNX Runtime does not take from
// the disk: it refuses links that lead out of the model's directory. Load threads.
#ifndef NEREID_ONNX_DATA_FILES_H
#define NEREID_ONNX_DATA_FILES_H

#include "ort_runtime.h"
#include "triton/core/tritonbackend.h"

typedef struct onnx_data_files {
  char **names; // of regular files, without their directory; names and contents are owned
  char **contents;
  size_t *sizes;
  size_t count;
} onnx_data_files;

// Maps the files in the directory `path` of the model, links followed as the server permits, and
// then those in `target` that are no links; -1: there is none. What cannot be opened is left out.
// Released with onnx_data_files_fini, also after an error.
TRITONSERVER_Error *onnx_data_files_init(onnx_data_files *self, TRITONBACKEND_Model *model,
                                         const char *path, int target);
void onnx_data_files_fini(onnx_data_files *self);

// Has a session take its external data from them. They have to live until it is made.
TRITONSERVER_Error *onnx_data_files_offer(const onnx_data_files *self, const ort_runtime *runtime,
                                          ort_session_options *options);

#endif
