// Files below the repository; see backend_file.h.
#include "backend_file.h"

#include "backend_error.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int open_below(int folder, const char *path, int flags)
{
  struct open_how how = {
      .flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
      .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
  };
  long result;
  do {
    result = syscall(SYS_openat2, folder, path, &how, sizeof how);
  } while (result < 0 && (errno == EINTR || errno == EAGAIN)); // EAGAIN: something was renamed
  return (int)result;
}

static TRITONSERVER_Error *open_failure(const char *path)
{
  switch (errno) {
  case ENOENT:
  case ENOTDIR:
    return backend_error(TRITONSERVER_ERROR_UNAVAILABLE, "unable to find '%s'", path);
  case EXDEV:
    return backend_error(TRITONSERVER_ERROR_INVALID_ARG, "'%s' leads out of the model repository",
                         path);
  default:
    return backend_error(TRITONSERVER_ERROR_INVALID_ARG, "unable to open '%s': %s", path,
                         strerror(errno));
  }
}

TRITONSERVER_Error *backend_open_repository(TRITONBACKEND_Model *model, int *repository)
{
  TRITONBACKEND_ArtifactType type;
  const char *folder;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelRepository(model, &type, &folder));
  const char *slash = strrchr(folder, '/');
  char *above = slash == NULL ? strdup(".") : strndup(folder, (size_t)(slash - folder) + 1);
  if (above == NULL)
    return backend_error_no_memory("a path");
  *repository = open(above, O_PATH | O_DIRECTORY | O_CLOEXEC);
  TRITONSERVER_Error *error = *repository >= 0 ? NULL : open_failure(above);
  free(above);
  return error;
}

TRITONSERVER_Error *backend_version_path(TRITONBACKEND_Model *model, const char *file, char **path)
{
  TRITONBACKEND_ArtifactType type;
  const char *folder;
  uint64_t version;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelRepository(model, &type, &folder));
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelVersion(model, &version));
  const char *slash = strrchr(folder, '/');
  if (asprintf(path, "%s/%llu/%s", slash == NULL ? folder : slash + 1, (unsigned long long)version,
               file) < 0)
    return backend_error_no_memory("a path");
  return NULL;
}

bool backend_is_folder(int folder, const char *path)
{
  int entry = open_below(folder, path, O_PATH | O_DIRECTORY);
  if (entry >= 0)
    close(entry);
  return entry >= 0;
}

TRITONSERVER_Error *backend_open_folder(int folder, const char *path, int *descriptor)
{
  *descriptor = open_below(folder, path, O_PATH | O_DIRECTORY);
  return *descriptor >= 0 ? NULL : open_failure(path);
}

// Opens a regular file. Its kind is looked at first: to open a FIFO or device for real may block or
// act.
static TRITONSERVER_Error *open_regular(int folder, const char *path, int *descriptor)
{
  struct stat status;
  int entry = open_below(folder, path, O_PATH);
  if (entry < 0 || fstat(entry, &status) != 0) {
    TRITONSERVER_Error *error = open_failure(path);
    if (entry >= 0)
      close(entry);
    return error;
  }
  close(entry);
  if (!S_ISREG(status.st_mode))
    return backend_error(TRITONSERVER_ERROR_INVALID_ARG, "'%s' is not a regular file", path);
  *descriptor = open_below(folder, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  return *descriptor >= 0 ? NULL : open_failure(path);
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

static TRITONSERVER_Error *read_descriptor(int descriptor, const char *path, size_t most,
                                           void **data, size_t *size)
{
  struct stat status;
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

TRITONSERVER_Error *backend_read_file(int folder, const char *path, size_t most, void **data,
                                      size_t *size)
{
  int descriptor = -1;
  *data = NULL;
  BACKEND_RETURN_IF_ERROR(open_regular(folder, path, &descriptor));
  TRITONSERVER_Error *error = read_descriptor(descriptor, path, most, data, size);
  close(descriptor);
  return error;
}
