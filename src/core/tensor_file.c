// SPDX-License-Identifier: Apache-2.0
// Reads a tensor's bytes, as many as the tensor needs. Load threads.
#include "core/tensor_file.h"

#include "base/cleanup.h"
#include "base/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static error *read_open_file(int descriptor, const char *name, bool whole, void **data,
                             size_t *size)
{
  struct stat status;
  if (fstat(descriptor, &status) != 0)
    return error_new(ERROR_INTERNAL, "failed to read text file '%s': %m", name);
  if (whole || *size > (size_t)status.st_size)
    *size = (size_t)status.st_size;
  *data = malloc(*size + 1);
  if (*data == NULL)
    return error_no_memory();
  if (!files_fill(descriptor, *data, size))
    return error_new(ERROR_INTERNAL, "failed to read text file '%s': %m", name);
  return NULL;
}

error *model_read_tensor(const model *m, const char *folder, const char *name,
                         TRITONSERVER_DataType datatype, void **data, size_t *size)
{
  char *path AUTO_FREE = NULL;
  int descriptor AUTO_CLOSE = -1;
  if (asprintf(&path, "%s%s", folder, name) < 0) {
    path = NULL;
    return error_no_memory();
  }
  error *e = model_open(m, path, false, &descriptor);
  if (e != NULL)
    return error_wrap(e, "failed to open text file for read %s/%s", m->dir, path);
  return read_open_file(descriptor, name, datatype == TRITONSERVER_TYPE_BYTES, data, size);
}
