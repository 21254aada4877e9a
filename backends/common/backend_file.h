// Files of a model. The kernel, not string tests, keeps every path below the repository (openat2
// with RESOLVE_BENEATH): no "..", absolute path or link leads out, even when a link is exchanged
// while the model loads. Load threads.
#ifndef NEREID_BACKEND_FILE_H
#define NEREID_BACKEND_FILE_H

#include "triton/core/tritonbackend.h"

#include <stdbool.h>
#include <stddef.h>

// The folder above the model's, which no path may leave. The caller closes *repository.
TRITONSERVER_Error *backend_open_repository(TRITONBACKEND_Model *model, int *repository);

// The path of `file` in the model's version folder, from the repository on, for free().
TRITONSERVER_Error *backend_version_path(TRITONBACKEND_Model *model, const char *file, char **path);

// Whether `path` below `folder` is a folder. False for what is absent, leads out or cannot be read.
bool backend_is_folder(int folder, const char *path);

// Opens the folder `path` below `folder`; the caller closes *descriptor.
TRITONSERVER_Error *backend_open_folder(int folder, const char *path, int *descriptor);

// Reads the regular file `path` below `folder` into *data, for free(). Errors: UNAVAILABLE when it
// is absent, INVALID_ARG when it leads out, is no regular file or has more than `most` bytes.
TRITONSERVER_Error *backend_read_file(int folder, const char *path, size_t most, void **data,
                                      size_t *size);

#endif
