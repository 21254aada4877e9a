// SPDX-License-Identifier: Apache-2.0
// The table of unpacked archives, and their private directory.
#include "pyenv/pyenv_cache.h"

#include "backend_error.h"
#include "backend_log.h"
#include "base/cleanup.h"
#include "base/dir.h"
#include "base/list.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define TRIES 8 // names for the directory

static const char PREFIX[] = "nereid-environments-";

typedef enum entry_state {
  ENTRY_UNPACKING,
  ENTRY_READY,
  ENTRY_FAILED // kept for the waiting threads
} entry_state;

struct cached_environment {
  list_node node;
  struct stat archive; // status when it was opened
  char *dir;
  const char *name; // the last part of `dir`
  size_t users;
  entry_state state;
};

struct environment_cache {
  pthread_mutex_t lock; // guards all below
  pthread_cond_t unpacked;
  char *parent;
  unpack_limits limits;
  char *base; // NULL: not made yet
  int base_dir;
  uint64_t number; // of the next directory
  list entries;
};

// ---- the private directory

// Removes a directory unless it is locked: then a running server uses it.
static void remove_if_left(int parent, const char *name)
{
  AUTO_CLOSE int dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat status;
  if (dir >= 0 && fstat(dir, &status) == 0 && status.st_uid == geteuid() &&
      flock(dir, LOCK_EX | LOCK_NB) == 0)
    dir_remove(parent, name);
}

// Removes directories of killed servers.
static void remove_left(const char *path)
{
  DIR *parent = opendir(path);
  struct dirent *entry;
  while (parent != NULL && (entry = readdir(parent)) != NULL)
    if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) == 0)
      remove_if_left(dirfd(parent), entry->d_name);
  if (parent != NULL)
    closedir(parent);
}

// The lock marks the directory as used. Another server may have removed it before.
static bool lock_base(environment_cache *self)
{
  struct stat status;
  self->base_dir = open(self->base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (self->base_dir < 0)
    return false;
  if (flock(self->base_dir, LOCK_EX | LOCK_NB) == 0 && fstat(self->base_dir, &status) == 0 &&
      status.st_nlink > 0)
    return true;
  close(self->base_dir);
  errno = EAGAIN;
  return false;
}

// errno has the reason.
static TRITONSERVER_Error *failure(const char *doing, const char *path)
{
  return backend_error_unavailable("cannot %s '%s': %s", doing, path, strerror(errno));
}

static TRITONSERVER_Error *make_base(environment_cache *self)
{
  if (self->base != NULL)
    return NULL;
  remove_left(self->parent);
  for (int i = 0; i < TRIES; i++) {
    if (asprintf(&self->base, "%s/%sXXXXXX", self->parent, PREFIX) < 0) {
      self->base = NULL;
      return backend_error_no_memory("Python environments");
    }
    if (mkdtemp(self->base) != NULL && lock_base(self))
      return NULL;
    free(self->base);
    self->base = NULL;
  }
  return failure("make a directory for Python environments in", self->parent);
}

TRITONSERVER_Error *environment_cache_new(const char *parent, const unpack_limits *limits,
                                          environment_cache **result)
{
  environment_cache *self = calloc(1, sizeof(*self));
  if (self == NULL || (self->parent = strdup(parent == NULL ? dir_temporary() : parent)) == NULL) {
    free(self);
    return backend_error_no_memory("Python environments");
  }
  self->limits = *limits;
  list_init(&self->entries);
  pthread_mutex_init(&self->lock, NULL);
  pthread_cond_init(&self->unpacked, NULL);
  *result = self;
  return NULL;
}

void environment_cache_free(environment_cache *self)
{
  if (self == NULL)
    return;
  assert(list_is_empty(&self->entries));
  if (self->base != NULL) {
    if (!dir_remove_path(self->base))
      BACKEND_LOG_WARN("cannot remove '%s'", self->base);
    close(self->base_dir);
  }
  pthread_cond_destroy(&self->unpacked);
  pthread_mutex_destroy(&self->lock);
  free(self->base);
  free(self->parent);
  free(self);
}

// ---- entries. Under the lock, which is given up while an archive is unpacked.

static bool is_same(const struct stat *one, const struct stat *other)
{
  return one->st_dev == other->st_dev && one->st_ino == other->st_ino &&
         one->st_size == other->st_size && one->st_mtim.tv_sec == other->st_mtim.tv_sec &&
         one->st_mtim.tv_nsec == other->st_mtim.tv_nsec;
}

static void set_state(cached_environment *entry, entry_state state)
{
  assert(entry->state == ENTRY_UNPACKING && state != ENTRY_UNPACKING);
  entry->state = state;
}

static cached_environment *find(const environment_cache *self, const struct stat *archive)
{
  list_foreach (cached_environment, entry, node, &self->entries)
    if (entry->state != ENTRY_FAILED && is_same(&entry->archive, archive))
      return entry;
  return NULL;
}

static cached_environment *add(environment_cache *self, const struct stat *archive)
{
  cached_environment *entry = calloc(1, sizeof(*entry));
  if (entry == NULL ||
      asprintf(&entry->dir, "%s/%llu", self->base, (unsigned long long)++self->number) < 0) {
    free(entry);
    return NULL;
  }
  entry->name = strrchr(entry->dir, '/') + 1;
  entry->archive = *archive;
  list_prepend(&self->entries, &entry->node);
  return entry;
}

// Removes the files without the lock: the last user is gone.
static void drop(environment_cache *self, cached_environment *entry)
{
  assert(entry->users > 0 && entry->state != ENTRY_UNPACKING);
  if (--entry->users > 0)
    return;
  list_remove(&entry->node);
  pthread_mutex_unlock(&self->lock);
  if (!dir_remove(self->base_dir, entry->name))
    BACKEND_LOG_WARN("cannot remove all of the Python environment in '%s'", entry->dir);
  free(entry->dir);
  free(entry);
  pthread_mutex_lock(&self->lock);
}

static TRITONSERVER_Error *unpack(const environment_cache *self, const cached_environment *entry,
                                  int file, const char *path)
{
  BACKEND_LOG_VERBOSE("unpacking Python environment '%s' into '%s'", path, entry->dir);
  if (mkdirat(self->base_dir, entry->name, 0700) != 0)
    return failure("make", entry->dir);
  AUTO_CLOSE int dir = openat(self->base_dir, entry->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return dir >= 0 ? unpack_archive(file, path, dir, &self->limits) : failure("open", entry->dir);
}

// Unpacks the archive, or waits for the thread that does. Its failure fails the waiting threads,
// too.
static TRITONSERVER_Error *take(environment_cache *self, int file, const char *path,
                                const struct stat *archive, cached_environment **result)
{
  TRITONSERVER_Error *error = NULL;
  cached_environment *entry = find(self, archive);
  if (entry != NULL) {
    entry->users++;
    while (entry->state == ENTRY_UNPACKING)
      pthread_cond_wait(&self->unpacked, &self->lock);
    if (entry->state == ENTRY_FAILED)
      error = backend_error_invalid("archive '%s' could not be unpacked for another model", path);
  } else {
    BACKEND_RETURN_IF_ERROR(make_base(self));
    entry = add(self, archive);
    if (entry == NULL)
      return backend_error_no_memory("Python environments");
    entry->users = 1;
    pthread_mutex_unlock(&self->lock);
    error = unpack(self, entry, file, path);
    pthread_mutex_lock(&self->lock);
    set_state(entry, error == NULL ? ENTRY_READY : ENTRY_FAILED);
    pthread_cond_broadcast(&self->unpacked);
  }
  if (error != NULL)
    drop(self, entry);
  else
    *result = entry;
  return error;
}

TRITONSERVER_Error *environment_cache_take(environment_cache *self, const char *path,
                                           cached_environment **result)
{
  struct stat archive;
  AUTO_CLOSE int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0)
    return failure("read archive", path);
  errno = EINVAL;
  if (fstat(file, &archive) != 0 || !S_ISREG(archive.st_mode))
    return failure("read archive", path);
  LOCK_SCOPE(&self->lock);
  return take(self, file, path, &archive, result);
}

const char *cached_environment_dir(const cached_environment *self)
{
  return self->dir;
}

void environment_cache_release(environment_cache *self, cached_environment *use)
{
  LOCK_SCOPE(&self->lock);
  drop(self, use);
}
