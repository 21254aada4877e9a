// SPDX-License-Identifier: Apache-2.0
// Files beside a model's file, in memory, for external data that ONNX Runtime refuses to read
// itself because of links out of the model's directory. Load threads.
#ifndef NEREID_ONNX_DATA_FILES_H
#define NEREID_ONNX_DATA_FILES_H

#include "ort_runtime.h"
#include "triton/core/tritonbackend.h"

typedef struct onnx_data_files {
  char **names; // of regular files, without directory; names and contents are owned
  char **contents;
  size_t *sizes;
  size_t count;
} onnx_data_files;

// Maps the files in the model's directory `path`, following links as the server permits, then the
// files in `target` that are not links (-1: none). Files that cannot be opened are left out. Call
// onnx_data_files_fini even after an error.
TRITONSERVER_Error *onnx_data_files_init(onnx_data_files *self, TRITONBACKEND_Model *model,
                                         const char *path, int target);
void onnx_data_files_fini(onnx_data_files *self);

// Makes a session take its external data from these files, which must live until it is made.
TRITONSERVER_Error *onnx_data_files_offer(const onnx_data_files *self, const ort_runtime *runtime,
                                          ort_session_options *options);

#endif
