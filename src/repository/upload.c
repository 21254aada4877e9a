// SPDX-License-Identifier: Apache-2.0
// The directory is fresh and private to this user, so that others cannot put links into it. The
// request's paths are checked (no "..", not absolute) and resolved by dir.h.
#include "repository/upload.h"

#include "base/cleanup.h"
#include "base/dir.h"
#include "base/files.h"
#include "base/log.h"
#include "base/refcount.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_DEPTH 32

struct upload {
  refcount references;
  char *dir;
};

static error *bad_path(const char *path, const char *why)
{
  return error_new(ERROR_INVALID_ARG, "Invalid file parameter 'file:%.256s': %s", path, why);
}

static error *write_failure(const char *path)
{
  return error_new(ERROR_UNAVAILABLE, "failed to store file '%.256s' of the model: %s", path,
                   strerror(errno));
}

static bool is_name(const char *name, size_t size)
{
  bool dots = size <= 2 && strspn(name, ".") >= size;
  return size > 0 && size <= NAME_MAX && !dots;
}

static error *check_path(const char *path)
{
  size_t depth = 0;
  for (const char *at = path;; at++) {
    size_t size = strcspn(at, "/");
    if (!is_name(at, size))
      return bad_path(path, "expected <version>/<file> below the model's directory");
    if (++depth > MAX_DEPTH)
      return bad_path(path, "it has too many directories");
    at += size;
    if (*at == '\0')
      return NULL;
  }
}

static error *write_file(int root, const char *model, const uploaded_file *from)
{
  RETURN_IF_ERROR(check_path(from->path));
  char *path AUTO_FREE = NULL;
  if (asprintf(&path, "%s/%s", model, from->path) < 0)
    return error_no_memory();
  int file = dir_open(root, path, O_WRONLY | O_CREAT | O_EXCL, 0600);
  if (file < 0 && errno == ENOTDIR)
    return bad_path(from->path, "directory has been created as a file");
  if (file < 0 && (errno == EEXIST || errno == EISDIR))
    return bad_path(from->path, "it is there twice");
  if (file < 0)
    return write_failure(from->path);
  error *e = files_write(file, from->content, from->size) ? NULL : write_failure(from->path);
  if (close(file) != 0 && e == NULL)
    e = write_failure(from->path);
  return e;
}

static error *write_files(const upload *u, const char *model, const uploaded_file *files,
                          size_t count)
{
  AUTO_CLOSE int root = open(u->dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (root < 0 || !dir_make(root, model))
    return write_failure(model);
  for (size_t i = 0; i < count; i++)
    RETURN_IF_ERROR(write_file(root, model, &files[i]));
  return NULL;
}

static error *make_dir(upload *u)
{
  u->dir = dir_make_temporary("nereid-upload");
  return u->dir != NULL
             ? NULL
             : error_new(ERROR_UNAVAILABLE, "failed to make a directory for a model's files: %s",
                         strerror(errno));
}

error *upload_new(const char *model, const uploaded_file *files, size_t count, upload **made)
{
  upload *u = calloc(1, sizeof(*u));
  if (u == NULL)
    return error_no_memory();
  refcount_init(&u->references);
  error *e = make_dir(u);
  if (e == NULL)
    e = write_files(u, model, files, count);
  if (e != NULL) {
    upload_unref(u);
    return e;
  }
  *made = u;
  return NULL;
}

upload *upload_ref(upload *u)
{
  if (u != NULL)
    refcount_take(&u->references);
  return u;
}

void upload_unref(upload *u)
{
  if (u == NULL || !refcount_drop(&u->references))
    return;
  if (u->dir != NULL && !dir_remove_path(u->dir))
    log_warning("failed to remove directory '%s' of a model's uploaded files: %s", u->dir,
                strerror(errno));
  free(u->dir);
  free(u);
}

const char *upload_repository(const upload *u)
{
  return u->dir;
}
