// SPDX-License-Identifier: Apache-2.0
// Files of a model. Which links are followed is the server's to say (NEREID_ModelOpen); in a server
// without that function all are, as in Triton's own backends. Load threads.
#ifndef NEREID_BACKEND_FILE_H
#define NEREID_BACKEND_FILE_H

#include "triton/core/tritonbackend.h"

#include <stdbool.h>
#include <stddef.h>

// The path of `file` in the model's version directory, from the model's directory on, for free().
TRITONSERVER_Error *backend_version_path(TRITONBACKEND_Model *model, const char *file, char **path);

// Opens the regular file or the directory `path` below the model's directory; a FIFO or device is
// looked at and never opened. The caller closes *descriptor. Errors: UNAVAILABLE when it is absent.
TRITONSERVER_Error *backend_open_file(TRITONBACKEND_Model *model, const char *path,
                                      int *descriptor);
TRITONSERVER_Error *backend_open_dir(TRITONBACKEND_Model *model, const char *path, int *descriptor);

// Reads an open regular file into *data, for free(). `path` is for errors: INVALID_ARG when it has
// more than `most` bytes.
TRITONSERVER_Error *backend_read_file(int descriptor, const char *path, size_t most, void **data,
                                      size_t *size);

#endif
