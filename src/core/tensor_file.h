// SPDX-License-Identifier: Apache-2.0
// Tensors in files of a model's directory: samples of warm-ups, first states of sequences. Load
// threads.
#ifndef NEREID_CORE_TENSOR_FILE_H
#define NEREID_CORE_TENSOR_FILE_H

#include "core/model.h"

// Reads the file `name` in the folder `folder` ("warmup/") of the model: `*size` bytes, or for
// BYTES the whole file. *size becomes the number of bytes read, which is less when the file is
// short. *data is for free(), also after an error.
error *model_read_tensor(const model *m, const char *folder, const char *name,
                         TRITONSERVER_DataType datatype, void **data, size_t *size);

#endif
