// SPDX-License-Identifier: Apache-2.0
// Files of a model. The server decides which links are followed (NEREID_ModelOpen). In a server
// without that function all links are followed, as in Triton's own backends. Load threads.
#ifndef NEREID_BACKEND_FILE_H
#define NEREID_BACKEND_FILE_H

#include "triton/core/tritonbackend.h"

#include <stdbool.h>
#include <stddef.h>

// The path of `file` in the model's version directory, relative to the model's directory, for
// free().
TRITONSERVER_Error *backend_version_path(TRITONBACKEND_Model *model, const char *file, char **path);

// Opens the regular file or the directory `path` below the model's directory. A FIFO or device is
// never opened. The caller closes *descriptor. Errors: UNAVAILABLE when it is absent.
TRITONSERVER_Error *backend_open_file(TRITONBACKEND_Model *model, const char *path,
                                      int *descriptor);
TRITONSERVER_Error *backend_open_dir(TRITONBACKEND_Model *model, const char *path, int *descriptor);

// Reads an open regular file into *data, for free(). INVALID_ARG when it has more than `most`
// bytes. `path` is for error texts.
TRITONSERVER_Error *backend_read_file(int descriptor, const char *path, size_t most, void **data,
                                      size_t *size);

#endif
