// SPDX-License-Identifier: Apache-2.0
// A model's directories that a framework reads by itself. Load threads.
#include "framework.h"

#include "backend_error.h"
#include "backend_file.h"
#include "base/cleanup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_DEPTH   32     // links may form a circle
#define MAX_ENTRIES 100000 // in all directories

typedef struct folder_walk {
  TRITONBACKEND_Model *model;
  size_t count;
} folder_walk;

static TRITONSERVER_Error *check_dir(folder_walk *walk, const char *path, int dir, int depth);

static bool is_itself_or_above(const char *name)
{
  return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

// Skips a broken link: for the framework it does not exist either.
static TRITONSERVER_Error *check_entry(folder_walk *walk, const char *dir_path, int dir,
                                       const char *name, int depth)
{
  struct stat status;
  char *path AUTO_FREE = NULL;
  int entry = -1;
  if (fstatat(dir, name, &status, 0) != 0 && errno == ENOENT)
    return NULL;
  if (++walk->count > MAX_ENTRIES || depth > MAX_DEPTH)
    return backend_error_invalid("'%s' has more than %d entries or more than %d levels", dir_path,
                                 MAX_ENTRIES, MAX_DEPTH);
  if (asprintf(&path, "%s/%s", dir_path, name) < 0)
    return backend_error_no_memory("a path");
  const bool is_dir = S_ISDIR(status.st_mode);
  BACKEND_RETURN_IF_ERROR(is_dir ? backend_open_dir(walk->model, path, &entry)
                                 : backend_open_file(walk->model, path, &entry));
  TRITONSERVER_Error *error = is_dir ? check_dir(walk, path, entry, depth + 1) : NULL;
  close(entry);
  return error;
}

static TRITONSERVER_Error *check_dir(folder_walk *walk, const char *path, int dir, int depth)
{
  int again = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); // the listing closes it
  DIR *listing = again < 0 ? NULL : fdopendir(again);
  if (listing == NULL) {
    TRITONSERVER_Error *error =
        backend_error_invalid("unable to list '%s': %s", path, strerror(errno));
    if (again >= 0)
      close(again);
    return error;
  }
  TRITONSERVER_Error *error = NULL;
  const struct dirent *entry;
  while (error == NULL && (entry = readdir(listing)) != NULL)
    if (!is_itself_or_above(entry->d_name))
      error = check_entry(walk, path, dir, entry->d_name, depth);
  closedir(listing);
  return error;
}

TRITONSERVER_Error *framework_open_folder(const framework_model *model, const char *path,
                                          int *descriptor, char **proc_path)
{
  folder_walk walk = {.model = model->model};
  *proc_path = NULL;
  BACKEND_RETURN_IF_ERROR(backend_open_dir(model->model, path, descriptor));
  TRITONSERVER_Error *error = check_dir(&walk, path, *descriptor, 0);
  if (error == NULL && asprintf(proc_path, "/proc/self/fd/%d", *descriptor) < 0) {
    *proc_path = NULL;
    error = backend_error_no_memory("a path");
  }
  if (error != NULL) {
    close(*descriptor);
    *descriptor = -1;
  }
  return error;
}
