// SPDX-License-Identifier: Apache-2.0
// Files as memory.
#include "onnx_data_files.h"

#include "backend_error.h"
#include "backend_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_FILES 4096 // a directory may have more files than the kernel maps

static bool has(const onnx_data_files *self, const char *name)
{
  for (size_t i = 0; i < self->count; i++)
    if (strcmp(self->names[i], name) == 0)
      return true;
  return false;
}

static bool grow(onnx_data_files *self)
{
  size_t room = self->count + 1;
  char **names = reallocarray(self->names, room, sizeof(*names));
  self->names = names != NULL ? names : self->names;
  char **contents = reallocarray(self->contents, room, sizeof(*contents));
  self->contents = contents != NULL ? contents : self->contents;
  size_t *sizes = reallocarray(self->sizes, room, sizeof(*sizes));
  self->sizes = sizes != NULL ? sizes : self->sizes;
  return names != NULL && contents != NULL && sizes != NULL;
}

// Maps the file unless one of this name exists. An empty file has no data.
static TRITONSERVER_Error *add(onnx_data_files *self, const char *name, int file)
{
  struct stat status;
  if (has(self, name) || fstat(file, &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_size <= 0)
    return NULL;
  char *copy = grow(self) ? strdup(name) : NULL;
  if (copy == NULL)
    return backend_error_no_memory("external data");
  void *content = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
  if (content == MAP_FAILED) {
    free(copy);
    return backend_error_no_memory("external data");
  }
  self->names[self->count] = copy;
  self->contents[self->count] = content;
  self->sizes[self->count++] = (size_t)status.st_size;
  return NULL;
}

static int open_in_model(TRITONBACKEND_Model *model, const char *path, const char *name)
{
  int file = -1;
  char *full = NULL;
  if (asprintf(&full, "%s/%s", path, name) < 0)
    return -1;
  TRITONSERVER_Error *error = backend_open_file(model, full, &file);
  if (error != NULL) // a directory, or a link that may not be followed
    TRITONSERVER_ErrorDelete(error);
  free(full);
  return file;
}

// Without `path` the directory is outside the model's, and no links in it are followed.
static TRITONSERVER_Error *add_dir(onnx_data_files *self, TRITONBACKEND_Model *model,
                                   const char *path, int dir)
{
  DIR *listing = fdopendir(dir); // takes the descriptor
  if (listing == NULL) {
    close(dir);
    return NULL;
  }
  TRITONSERVER_Error *error = NULL;
  struct dirent *entry;
  while (error == NULL && self->count < MAX_FILES && (entry = readdir(listing)) != NULL) {
    const char *name = entry->d_name;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
        (path == NULL && entry->d_type != DT_REG && entry->d_type != DT_UNKNOWN))
      continue;
    int file = path != NULL ? open_in_model(model, path, name)
                            : openat(dirfd(listing), name,
                                     O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (file < 0)
      continue;
    error = add(self, name, file);
    close(file);
  }
  closedir(listing);
  return error;
}

TRITONSERVER_Error *onnx_data_files_init(onnx_data_files *self, TRITONBACKEND_Model *model,
                                         const char *path, int target)
{
  int dir = -1;
  *self = (onnx_data_files){0};
  BACKEND_RETURN_IF_ERROR(backend_open_dir(model, path, &dir));
  BACKEND_RETURN_IF_ERROR(add_dir(self, model, path, dir));
  int beside = target < 0 ? -1 : openat(target, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return beside < 0 ? NULL : add_dir(self, model, NULL, beside);
}

void onnx_data_files_fini(onnx_data_files *self)
{
  for (size_t i = 0; i < self->count; i++) {
    munmap(self->contents[i], self->sizes[i]);
    free(self->names[i]);
  }
  free(self->names);
  free(self->contents);
  free(self->sizes);
  *self = (onnx_data_files){0};
}

TRITONSERVER_Error *onnx_data_files_offer(const onnx_data_files *self, const ort_runtime *runtime,
                                          ort_session_options *options)
{
  return ort_error(runtime, runtime->add_data_files(options, (const char *const *)self->names,
                                                    self->contents, self->sizes, self->count));
}
