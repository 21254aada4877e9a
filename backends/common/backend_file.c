// SPDX-License-Identifier: Apache-2.0
// Files of a model.
#include "backend_file.h"

#include "backend_error.h"
#include "base/cleanup.h"
#include "base/files.h"
#include "nereid/nereid.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// Only nereid has this function.
extern __typeof__(NEREID_ModelOpen) NEREID_ModelOpen __attribute__((weak));

static TRITONSERVER_Error *open_by_name(const char *dir, const char *path, const char *full,
                                        bool is_dir, int *descriptor)
{
  file_root root AUTO_ROOT = FILE_ROOT_CLOSED;
  AUTO_ERROR error *e = files_open_root(dir, &file_policy_anywhere, &root);
  if (e == NULL)
    e = files_open(&root, path, is_dir ? FILE_FOLDER : FILE_REGULAR, descriptor);
  if (e == NULL)
    return NULL;
  if (error_get_code(e) == ERROR_NOT_FOUND)
    return backend_error_unavailable("unable to find '%s': %s", full, error_message(e));
  return backend_error_invalid("unable to open '%s': %s", full, error_message(e));
}

static TRITONSERVER_Error *ask_server(TRITONBACKEND_Model *model, const char *path,
                                      const char *full, bool is_dir, int *descriptor)
{
  TRITONSERVER_Error *error = NEREID_ModelOpen(model, path, is_dir, descriptor);
  if (error == NULL || TRITONSERVER_ErrorCode(error) != TRITONSERVER_ERROR_NOT_FOUND)
    return error;
  TRITONSERVER_Error *absent =
      backend_error_unavailable("unable to find '%s': %s", full, TRITONSERVER_ErrorMessage(error));
  TRITONSERVER_ErrorDelete(error);
  return absent;
}

static TRITONSERVER_Error *open_in_model(TRITONBACKEND_Model *model, const char *path, bool is_dir,
                                         int *descriptor)
{
  TRITONBACKEND_ArtifactType type;
  const char *dir;
  char *full AUTO_FREE = NULL;
  *descriptor = -1;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelRepository(model, &type, &dir));
  if (asprintf(&full, "%s/%s", dir, path) < 0)
    return backend_error_no_memory("a path");
  return NEREID_ModelOpen == NULL ? open_by_name(dir, path, full, is_dir, descriptor)
                                  : ask_server(model, path, full, is_dir, descriptor);
}

TRITONSERVER_Error *backend_version_path(TRITONBACKEND_Model *model, const char *file, char **path)
{
  uint64_t version;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelVersion(model, &version));
  if (asprintf(path, "%llu/%s", (unsigned long long)version, file) < 0)
    return backend_error_no_memory("a path");
  return NULL;
}

TRITONSERVER_Error *backend_open_file(TRITONBACKEND_Model *model, const char *path, int *descriptor)
{
  return open_in_model(model, path, false, descriptor);
}

TRITONSERVER_Error *backend_open_dir(TRITONBACKEND_Model *model, const char *path, int *descriptor)
{
  return open_in_model(model, path, true, descriptor);
}

TRITONSERVER_Error *backend_read_file(int descriptor, const char *path, size_t most, void **data,
                                      size_t *size)
{
  struct stat status;
  *data = NULL;
  if (fstat(descriptor, &status) != 0)
    return backend_error_invalid("unable to open '%s': %s", path, strerror(errno));
  if (status.st_size < 0 || (uint64_t)status.st_size > most)
    return backend_error_invalid("'%s' has %lld bytes, expected at most %zu", path,
                                 (long long)status.st_size, most);
  *size = (size_t)status.st_size;
  *data = malloc(*size + 1);
  if (*data == NULL)
    return backend_error_no_memory(path);
  if (files_fill(descriptor, *data, size)) // the file may have shrunk
    return NULL;
  TRITONSERVER_Error *error =
      backend_error_internal("unable to read '%s': %s", path, strerror(errno));
  free(*data);
  *data = NULL;
  return error;
}
