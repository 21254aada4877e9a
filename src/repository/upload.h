// SPDX-License-Identifier: Apache-2.0
// Files of a model that came with the request to load it: a temporary directory serves as the
// repository while references exist. Made on the thread that loads; references from any thread.
#ifndef NEREID_REPOSITORY_UPLOAD_H
#define NEREID_REPOSITORY_UPLOAD_H

#include "base/error.h"

#include <stddef.h>

typedef struct upload upload;

// One file. `path` is below the model's directory, e.g. "1/model.onnx".
typedef struct uploaded_file {
  const char *path;
  const void *content;
  size_t size;
} uploaded_file;

// Writes the files to <TMPDIR or /tmp>/nereid-upload-XXXXXX/<model>/, which only this user can
// enter. INVALID_ARG for a path that is absolute, leaves the directory, is too deep or occurs
// twice; UNAVAILABLE when a file cannot be written. After an error no file is left.
error *upload_new(const char *model, const uploaded_file *files, size_t count, upload **made);

upload *upload_ref(upload *u);
void upload_unref(upload *u); // the last reference removes the directory; NULL is allowed

// The path of the directory that contains the model's directory.
const char *upload_repository(const upload *u);

#endif
