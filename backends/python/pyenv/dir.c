// openat2, and what is done beneath the directories that it opens. Any thread.
#include "pyenv/dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const int DIR_FLAGS = O_PATH | O_DIRECTORY;

static int open_beneath(int dir, const char *path, int flags, mode_t mode)
{
  struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC | O_NOFOLLOW),
                         .mode = mode,
                         .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
  return (int)syscall(SYS_openat2, dir, path, &how, sizeof how);
}

bool dir_make(int dir, const char *path)
{
  char part[PATH_MAX];
  int last = strlen(path) < sizeof part ? fcntl(dir, F_DUPFD_CLOEXEC, 0) : -1;
  for (const char *at = path; last >= 0 && *at != '\0';) {
    size_t length = strcspn(at, "/");
    memcpy(part, at, length);
    part[length] = '\0';
    int next = -1;
    if (mkdirat(last, part, 0700) == 0 || errno == EEXIST)
      next = open_beneath(last, part, DIR_FLAGS, 0);
    int failure = errno;
    close(last);
    errno = failure;
    last = next;
    at += length + (at[length] == '/');
  }
  if (last >= 0)
    close(last);
  return last >= 0;
}

// Opens the directory in which `path` is, and gives the last part of it.
static int open_parent(int dir, const char *path, const char **name)
{
  char above[PATH_MAX];
  const char *slash = strrchr(path, '/');
  *name = slash == NULL ? path : slash + 1;
  if (slash == NULL)
    return fcntl(dir, F_DUPFD_CLOEXEC, 0);
  size_t length = (size_t)(slash - path);
  if (length >= sizeof above) {
    errno = ENAMETOOLONG;
    return -1;
  }
  memcpy(above, path, length);
  above[length] = '\0';
  int parent = open_beneath(dir, above, DIR_FLAGS, 0);
  if (parent < 0 && errno == ENOENT && dir_make(dir, above))
    parent = open_beneath(dir, above, DIR_FLAGS, 0);
  return parent;
}

static void close_keeping_errno(int descriptor)
{
  int failure = errno;
  close(descriptor);
  errno = failure;
}

int dir_open(int dir, const char *path, int flags, mode_t mode)
{
  const char *name;
  int parent = open_parent(dir, path, &name);
  if (parent < 0)
    return -1;
  int file = open_beneath(parent, name, flags, mode);
  close_keeping_errno(parent);
  return file;
}

bool dir_link_to(int dir, const char *path, const char *target)
{
  const char *name;
  int parent = open_parent(dir, path, &name);
  if (parent < 0)
    return false;
  int result = symlinkat(target, parent, name);
  close_keeping_errno(parent);
  return result == 0;
}

bool dir_share_file(int dir, const char *from, const char *path)
{
  const char *from_name, *name;
  int result = -1, from_parent = open_parent(dir, from, &from_name);
  struct stat status;
  if (from_parent < 0)
    return false;
  int parent = open_parent(dir, path, &name);
  if (parent >= 0) {
    result = fstatat(from_parent, from_name, &status, AT_SYMLINK_NOFOLLOW);
    if (result == 0 && !S_ISREG(status.st_mode)) { // a link leads elsewhere from another place
      errno = EPERM;
      result = -1;
    }
    if (result == 0)
      result = linkat(from_parent, from_name, parent, name, 0);
    close_keeping_errno(parent);
  }
  close_keeping_errno(from_parent);
  return result == 0;
}

void dir_remove_file(int dir, const char *path)
{
  const char *name;
  int parent = open_parent(dir, path, &name);
  if (parent < 0)
    return;
  unlinkat(parent, name, 0);
  close(parent);
}

bool dir_resolves(int dir, const char *path)
{
  struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                         .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
  int file = (int)syscall(SYS_openat2, dir, path, &how, sizeof how);
  if (file >= 0)
    close(file);
  return file >= 0 || errno == ENOENT || errno == ENOTDIR;
}

// ---- removing

static bool remove_at(int parent, const char *name, int depth);

static bool is_entry(const char *name)
{
  return strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

// A directory whose content can be listed and removed, whatever its mode was.
static int open_readable(int parent, const char *name)
{
  char path[32];
  int found = open_beneath(parent, name, DIR_FLAGS, 0);
  if (found < 0)
    return -1;
  snprintf(path, sizeof path, "/proc/self/fd/%d", found);
  int result = chmod(path, 0700) == 0 ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  close_keeping_errno(found);
  return result;
}

static bool remove_content(int parent, const char *name, int depth)
{
  bool removed = true;
  int descriptor = open_readable(parent, name);
  DIR *dir = descriptor < 0 ? NULL : fdopendir(descriptor);
  if (dir == NULL) {
    if (descriptor >= 0)
      close_keeping_errno(descriptor);
    return false;
  }
  struct dirent *entry;
  while ((entry = readdir(dir)) != NULL)
    if (is_entry(entry->d_name))
      removed = remove_at(descriptor, entry->d_name, depth) && removed;
  closedir(dir);
  return removed;
}

// Twice as deep as what is unpacked: what runs in it may have made more.
static bool remove_at(int parent, const char *name, int depth)
{
  if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
    return true;
  if (errno != EISDIR && errno != EPERM)
    return false;
  if (depth > 2 * MAX_DIR_DEPTH)
    return false;
  return remove_content(parent, name, depth + 1) && unlinkat(parent, name, AT_REMOVEDIR) == 0;
}

bool dir_remove(int parent, const char *name)
{
  return remove_at(parent, name, 0);
}
