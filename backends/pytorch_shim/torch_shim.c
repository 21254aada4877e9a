// SPDX-License-Identifier: Apache-2.0
// Finds, compiles and opens the shim.
//
// The cache contains code that will run, so its directory must belong to this user alone. A file
// there is opened once, checked, and loaded from the same descriptor. Two servers may compile at
// the same time: each uses a directory of its own, and either result may replace the other by
// rename.
#include "torch_shim.h"

#include "backend_error.h"
#include "backend_log.h"
#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/files.h"
#include "torch_compiler.h"
#include "torch_open.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SOURCE "shim.cc"

// Records what was tried, for the error.
typedef struct finding {
  const torch_shim_wanted *wanted;
  torch_shim *shim;
  char own_dir[PATH_MAX]; // the backend's
  buffer tried;
} finding;

static const char *abi_of(const torch_shim_wanted *wanted)
{
  return wanted->cxx11 ? "cxx11" : "precxx11";
}

static void note(finding *self, const char *where, const char *why)
{
  buffer_append_format(&self->tried, "%s'%s': %s", self->tried.size > 0 ? "; " : "", where, why);
}

// ---- opening ----

static bool read_functions(void *handle, torch_shim *shim)
{
  bool complete = true;
  void *symbol;
#define READ(result, name, arguments)                                                              \
  symbol = dlsym(handle, "nereid_torch_" #name);                                                   \
  memcpy(&shim->name, &symbol, sizeof(symbol));                                                    \
  complete = complete && symbol != NULL;
  NEREID_TORCH_FUNCTIONS(READ)
#undef READ
  return complete && shim->interface() == NEREID_TORCH_SHIM;
}

// Opens the shim behind `file`. False: the reason is noted.
static bool open_file(finding *self, int file, const char *path)
{
  void *handle = torch_open_descriptor(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == NULL) {
    note(self, path, dlerror());
    return false;
  }
  const bool serves = read_functions(handle, self->shim);
  if (!serves)
    note(self, path, "is for another version of this backend");
  dlclose(handle);
  return serves;
}

// ---- beside the backend ----

static bool find_own_dir(finding *self)
{
  Dl_info info;
  const char *slash = NULL;
  if (dladdr(SOURCE, &info) != 0 && info.dli_fname != NULL)
    slash = strrchr(info.dli_fname, '/');
  return slash != NULL &&
         snprintf(self->own_dir, sizeof(self->own_dir), "%.*s", (int)(slash - info.dli_fname),
                  info.dli_fname) < (int)sizeof(self->own_dir);
}

static bool open_prebuilt(finding *self)
{
  char path[PATH_MAX];
  if (snprintf(path, sizeof(path), "%s/libnereid_torch-%s.so", self->own_dir,
               abi_of(self->wanted)) >= (int)sizeof(path))
    return false;
  const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    note(self, path, strerror(errno));
    return false;
  }
  const bool opened = open_file(self, file, path);
  close(file);
  if (opened &&
      strncmp(self->shim->version(), self->wanted->version, strlen(self->shim->version())) != 0)
    BACKEND_LOG_WARN("pytorch: '%s' was made for PyTorch %s, and %s is installed: what is not the "
                     "same in both is not noticed",
                     path, self->shim->version(), self->wanted->version);
  return opened;
}

// ---- the cache ----

// Finds the directory, and makes it if it is missing. False: the reason is noted.
static bool find_cache(finding *self, char path[PATH_MAX])
{
  const char *given = self->wanted->cache_dir, *home = getenv("HOME"),
             *caches = getenv("XDG_CACHE_HOME");
  const struct passwd *user = home == NULL || *home == '\0' ? getpwuid(geteuid()) : NULL;
  int length;
  if (user != NULL)
    home = user->pw_dir;
  if (given != NULL)
    length = snprintf(path, PATH_MAX, "%s", given);
  else if (caches != NULL && *caches == '/')
    length = snprintf(path, PATH_MAX, "%s/nereid", caches);
  else
    length = snprintf(path, PATH_MAX, "%s/.cache/nereid", home != NULL ? home : "");
  if (length >= PATH_MAX || path[0] != '/') {
    note(self, path, "is no absolute path");
    return false;
  }
  return true;
}

static bool make_dirs(finding *self, char *path)
{
  for (char *at = path + 1; (at = strchr(at, '/')) != NULL; *at++ = '/') {
    *at = '\0';
    mkdir(path, 0700);
  }
  if (mkdir(path, 0700) == 0 || errno == EEXIST)
    return true;
  note(self, path, strerror(errno));
  return false;
}

// In a directory with the sticky bit users cannot replace files of others.
static bool may_be_written(const struct stat *status, bool is_cache)
{
  if (is_cache)
    return (status->st_mode & (S_IWOTH | S_IWGRP)) != 0;
  if ((status->st_mode & S_ISVTX) != 0)
    return false;
  return (status->st_mode & S_IWOTH) != 0 ||
         ((status->st_mode & S_IWGRP) != 0 && status->st_gid != 0 && status->st_gid != getegid());
}

// Whether only this user, or root, can have made or replaced what is at `path`. Resolves the links
// in `path` first, because others may own them.
static bool is_ours(finding *self, char path[PATH_MAX])
{
  char at[PATH_MAX];
  struct stat status;
  if (realpath(path, at) == NULL) {
    note(self, path, strerror(errno));
    return false;
  }
  memcpy(path, at, sizeof(at));
  for (bool first = true;; first = false) {
    const char *why = NULL;
    if (lstat(at[0] != '\0' ? at : "/", &status) != 0)
      why = strerror(errno);
    else if (status.st_uid != geteuid() && (first || status.st_uid != 0))
      why = "belongs to another user";
    else if (may_be_written(&status, first))
      why = "may be written by others";
    if (why != NULL)
      note(self, at, why);
    if (why != NULL || at[0] == '\0')
      return why == NULL;
    *strrchr(at, '/') = '\0';
  }
}

// The file's name contains the version, the ABI and a hash of this source.
static void name_shim(const finding *self, const buffer *source, char name[NAME_MAX])
{
  uint64_t hash = 14695981039346656037U; // FNV-1a
  for (size_t i = 0; i < source->size; i++)
    hash = (hash ^ (unsigned char)source->data[i]) * 1099511628211U;
  int length = snprintf(name, NAME_MAX, "libnereid_torch-%s-%s-%016llx.so", self->wanted->version,
                        abi_of(self->wanted), (unsigned long long)hash);
  for (int i = 0; i < length && i < NAME_MAX; i++)
    if (name[i] == '/')
      name[i] = '_';
}

static bool read_source(finding *self, char path[PATH_MAX], buffer *source)
{
  ssize_t size = -1;
  if (snprintf(path, PATH_MAX, "%s/" SOURCE, self->own_dir) >= PATH_MAX)
    return false;
  AUTO_CLOSE int file = open(path, O_RDONLY | O_CLOEXEC);
  do {
    char *room = file < 0 ? NULL : buffer_reserve(source, 1 << 16);
    size = room == NULL ? -1 : read(file, room, 1 << 16);
    source->size += size > 0 ? (size_t)size : 0;
  } while (size > 0);
  if (size < 0)
    note(self, path, file < 0 ? strerror(errno) : "cannot be read");
  return size == 0;
}

static bool open_cached(finding *self, int dir, const char *path, const char *name)
{
  struct stat status;
  AUTO_CLOSE int file = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) {
    if (errno != ENOENT)
      note(self, path, strerror(errno));
    return false;
  }
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid() ||
      (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    note(self, path, "is left alone: it is not this user's alone");
    return false;
  }
  return open_file(self, file, path);
}

// ---- compiling ----

static bool compile(finding *self, const char *source, const char *cache, int dir, const char *name)
{
  char work[PATH_MAX], made[PATH_MAX];
  char *why_not AUTO_FREE = NULL;
  if (snprintf(work, sizeof(work), "%s/.making-XXXXXX", cache) >= (int)sizeof(work) ||
      mkdtemp(work) == NULL) {
    note(self, cache, strerror(errno));
    return false;
  }
  const uint64_t begun = clock_monotonic_ns();
  BACKEND_LOG_INFO("pytorch: compiling the shim for TorchScript and PyTorch %s, once (to '%s/%s')",
                   self->wanted->version, cache, name);
  const torch_compilation wanted = {.compiler = self->wanted->compiler,
                                    .library = self->wanted->library,
                                    .cxx11 = self->wanted->cxx11,
                                    .source = source,
                                    .work_dir = work};
  bool done = torch_compile(&wanted, made, &why_not);
  if (!done) {
    note(self, source, why_not != NULL ? why_not : "cannot be compiled");
  } else if (chmod(made, 0600) != 0 || renameat(AT_FDCWD, made, dir, name) != 0) {
    note(self, cache, strerror(errno));
    done = false;
  }
  unlink(made);
  rmdir(work);
  if (done)
    BACKEND_LOG_INFO("pytorch: the shim is compiled, in %llu ms",
                     (unsigned long long)((clock_monotonic_ns() - begun) / 1000000));
  return done;
}

static bool open_made(finding *self)
{
  char cache[PATH_MAX], source[PATH_MAX], name[NAME_MAX], path[PATH_MAX + NAME_MAX];
  buffer text AUTO_BUFFER = BUFFER_EMPTY;
  if (!read_source(self, source, &text) || !find_cache(self, cache) || !make_dirs(self, cache) ||
      !is_ours(self, cache))
    return false;
  AUTO_CLOSE int dir = open(cache, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (dir < 0) {
    note(self, cache, strerror(errno));
    return false;
  }
  name_shim(self, &text, name);
  snprintf(path, sizeof(path), "%s/%s", cache, name);
  if (open_cached(self, dir, path, name))
    return true;
  return compile(self, source, cache, dir, name) && open_cached(self, dir, path, name);
}

TRITONSERVER_Error *torch_shim_open(const torch_shim_wanted *wanted, torch_shim *shim)
{
  finding self = {.wanted = wanted, .shim = shim, .tried = BUFFER_EMPTY};
  if (find_own_dir(&self) && (open_prebuilt(&self) || open_made(&self))) {
    buffer_fini(&self.tried);
    return NULL;
  }
  char *tried AUTO_FREE = buffer_take_text(&self.tried);
  return backend_error_unavailable(
      "TorchScript needs a shim for PyTorch %s. Install a C++ compiler (g++), with which it is "
      "compiled once, or name one with --backend-config=pytorch,compiler=PATH, and a directory to "
      "keep it in with --backend-config=pytorch,cache-dir=DIR; or put a prebuilt "
      "libnereid_torch-%s.so beside the backend (docs/pytorch.md has the command); models with "
      "runtime \"model.py\" need neither (tried %s)",
      wanted->version, abi_of(wanted), tried != NULL ? tried : "nothing");
}
