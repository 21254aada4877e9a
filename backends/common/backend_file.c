// Files of a model; see backend_file.h.
#include "backend_file.h"

#include "backend_error.h"
#include "nereid/nereid.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Only nereid has it.
extern __typeof__(NEREID_ModelOpen) NEREID_ModelOpen __attribute__((weak));

static TRITONSERVER_Error *open_failure(const char *path)
{
  switch (errno) {
  case ENOENT:
  case ENOTDIR:
    return backend_error(TRITONSERVER_ERROR_UNAVAILABLE, "unable to find '%s'", path);
  default:
    return backend_error(TRITONSERVER_ERROR_INVALID_ARG, "unable to open '%s': %s", path,
                         strerror(errno));
  }
}

// Opens what `found`, a path descriptor, is, when it is of the kind that is wanted.
static TRITONSERVER_Error *reopen(int found, const char *path, bool is_dir, int *descriptor)
{
  struct stat status;
  char link[64];
  if (fstat(found, &status) != 0)
    return open_failure(path);
  if (is_dir ? !S_ISDIR(status.st_mode) : !S_ISREG(status.st_mode))
    return backend_error(TRITONSERVER_ERROR_INVALID_ARG, "'%s' is not a %s", path,
                         is_dir ? "directory" : "regular file");
  snprintf(link, sizeof link, "/proc/self/fd/%d", found);
  *descriptor = open(link, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  return *descriptor >= 0 ? NULL : open_failure(path);
}

static TRITONSERVER_Error *open_by_name(const char *path, bool is_dir, int *descriptor)
{
  int found = open(path, O_PATH | O_CLOEXEC);
  TRITONSERVER_Error *error =
      found < 0 ? open_failure(path) : reopen(found, path, is_dir, descriptor);
  if (found >= 0)
    close(found);
  return error;
}

static TRITONSERVER_Error *ask_server(TRITONBACKEND_Model *model, const char *path,
                                      const char *full, bool is_dir, int *descriptor)
{
  TRITONSERVER_Error *error = NEREID_ModelOpen(model, path, is_dir, descriptor);
  if (error == NULL || TRITONSERVER_ErrorCode(error) != TRITONSERVER_ERROR_NOT_FOUND)
    return error;
  TRITONSERVER_Error *absent =
      backend_error(TRITONSERVER_ERROR_UNAVAILABLE, "unable to find '%s': %s", full,
                    TRITONSERVER_ErrorMessage(error));
  TRITONSERVER_ErrorDelete(error);
  return absent;
}

static TRITONSERVER_Error *open_in_model(TRITONBACKEND_Model *model, const char *path, bool is_dir,
                                         int *descriptor)
{
  TRITONBACKEND_ArtifactType type;
  const char *dir;
  char *full = NULL;
  *descriptor = -1;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelRepository(model, &type, &dir));
  if (asprintf(&full, "%s/%s", dir, path) < 0)
    return backend_error_no_memory("a path");
  TRITONSERVER_Error *error = NEREID_ModelOpen == NULL
                                  ? open_by_name(full, is_dir, descriptor)
                                  : ask_server(model, path, full, is_dir, descriptor);
  free(full);
  return error;
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

static TRITONSERVER_Error *read_all(int descriptor, const char *path, char *data, size_t *size)
{
  size_t done = 0;
  while (done < *size) {
    ssize_t got = read(descriptor, data + done, *size - done);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return backend_error(TRITONSERVER_ERROR_INTERNAL, "unable to read '%s': %s", path,
                           strerror(errno));
    if (got == 0)
      break; // it became shorter
    done += (size_t)got;
  }
  *size = done;
  return NULL;
}

TRITONSERVER_Error *backend_read_file(int descriptor, const char *path, size_t most, void **data,
                                      size_t *size)
{
  struct stat status;
  *data = NULL;
  if (fstat(descriptor, &status) != 0)
    return open_failure(path);
  if (status.st_size < 0 || (uint64_t)status.st_size > most)
    return backend_error(TRITONSERVER_ERROR_INVALID_ARG,
                         "'%s' has %lld bytes, expected at most %zu", path,
                         (long long)status.st_size, most);
  *size = (size_t)status.st_size;
  *data = malloc(*size + 1);
  if (*data == NULL)
    return backend_error_no_memory(path);
  TRITONSERVER_Error *error = read_all(descriptor, path, *data, size);
  if (error != NULL) {
    free(*data);
    *data = NULL;
  }
  return error;
}
