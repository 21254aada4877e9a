// SPDX-License-Identifier: Apache-2.0
// Tensors that files of a model's directory hold: the samples of warm-ups, the first states of
// sequences. Load threads.
#ifndef NEREID_CORE_TENSOR_FILE_H
#define NEREID_CORE_TENSOR_FILE_H

#include "core/model.h"

// Reads `*size` bytes of the file `name` in the model's folder `folder` ("warmup/") or, of BYTES,
// all of it. In *size comes what there was, less where the file is short. *data for free(), also
// after an error.
error *model_read_tensor(const model *m, const char *folder, const char *name,
                         TRITONSERVER_DataType datatype, void **data, size_t *size);

#endif
