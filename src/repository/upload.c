// The directory is fresh and its owner's alone, so that nobody can put links in the way; what a
// path of the request could do is kept out by looking at it (no "..", not absolute) and by
// O_NOFOLLOW.
#include "repository/upload.h"

#include "base/cleanup.h"
#include "base/files.h"
#include "base/log.h"
#include "base/refcount.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_DEPTH    32
#define OPEN_FOLDERS 16 // of nftw

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

// Opens the directory `name` below `parent`, made if it is not there; `parent` is closed.
static int enter(int parent, const char *name)
{
  int dir = -1;
  if (mkdirat(parent, name, 0700) == 0 || errno == EEXIST)
    dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  int reason = errno;
  close(parent);
  errno = reason;
  return dir;
}

static error *write_file(int model_dir, const uploaded_file *from)
{
  RETURN_IF_ERROR(check_path(from->path));
  char *path AUTO_FREE = strdup(from->path);
  int dir = path == NULL ? -1 : fcntl(model_dir, F_DUPFD_CLOEXEC, 0);
  char *name = path;
  for (char *slash; dir >= 0 && (slash = strchr(name, '/')) != NULL; name = slash + 1) {
    *slash = '\0';
    dir = enter(dir, name);
  }
  if (dir < 0 && errno == ENOTDIR)
    return bad_path(from->path, "directory has been created as a file");
  if (dir < 0)
    return write_failure(from->path);
  int file = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  int reason = errno;
  close(dir);
  errno = reason;
  if (file < 0 && (errno == EEXIST || errno == EISDIR))
    return bad_path(from->path, "it is there twice");
  if (file < 0)
    return write_failure(from->path);
  error *e = files_write(file, from->content, from->size) ? NULL : write_failure(from->path);
  if (close(file) != 0 && e == NULL)
    e = write_failure(from->path);
  return e;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
  (void)status, (void)kind, (void)walk;
  return remove(path) == 0 || errno == ENOENT ? 0 : -1;
}

static error *write_files(const upload *self, const char *model, const uploaded_file *files,
                          size_t count)
{
  int root = open(self->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  int dir = root < 0 ? -1 : enter(root, model);
  error *e = dir < 0 ? write_failure(model) : NULL;
  for (size_t i = 0; i < count && e == NULL; i++)
    e = write_file(dir, &files[i]);
  if (dir >= 0)
    close(dir);
  return e;
}

static error *make_dir(upload *self)
{
  const char *base = getenv("TMPDIR");
  if (base == NULL || base[0] != '/')
    base = "/tmp";
  if (asprintf(&self->dir, "%s/nereid-upload-XXXXXX", base) < 0) {
    self->dir = NULL;
    return error_no_memory();
  }
  if (mkdtemp(self->dir) != NULL)
    return NULL;
  error *e = error_new(ERROR_UNAVAILABLE, "failed to make a directory for a model's files: %s",
                       strerror(errno));
  free(self->dir);
  self->dir = NULL;
  return e;
}

error *upload_new(const char *model, const uploaded_file *files, size_t count, upload **made)
{
  upload *self = calloc(1, sizeof(*self));
  if (self == NULL)
    return error_no_memory();
  refcount_init(&self->references);
  error *e = make_dir(self);
  if (e == NULL)
    e = write_files(self, model, files, count);
  if (e != NULL) {
    upload_unref(self);
    return e;
  }
  *made = self;
  return NULL;
}

upload *upload_ref(upload *self)
{
  if (self != NULL)
    refcount_take(&self->references);
  return self;
}

void upload_unref(upload *self)
{
  if (self == NULL || !refcount_drop(&self->references))
    return;
  if (self->dir != NULL && nftw(self->dir, remove_one, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS) != 0)
    log_warning("failed to remove directory '%s' of a model's uploaded files: %s", self->dir,
                strerror(errno));
  free(self->dir);
  free(self);
}

const char *upload_repository(const upload *self)
{
  return self->dir;
}
