// SPDX-License-Identifier: Apache-2.0
// Paths beneath a directory; see dir.h. No state.
#include "base/dir.h"

#include "base/cleanup.h"
#include "base/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static int open_beneath(int dir, const char *path, int flags, mode_t mode)
{
  return files_open_at(dir, path, flags | O_NOFOLLOW, mode, FILE_LINKS_NONE);
}

static int open_dir(int dir, const char *path)
{
  return open_beneath(dir, path, O_PATH | O_DIRECTORY, 0);
}

// Makes the directory `path` and those above it, and opens it.
static int make_dir(int dir, const char *path)
{
  char part[PATH_MAX];
  int last = strlen(path) < sizeof(part) ? fcntl(dir, F_DUPFD_CLOEXEC, 0) : -1;
  while (last >= 0 && *path != '\0') {
    size_t length = strcspn(path, "/");
    memcpy(part, path, length);
    part[length] = '\0';
    int next = mkdirat(last, part, 0700) == 0 || errno == EEXIST ? open_dir(last, part) : -1;
    close(last);
    last = next;
    path += length + (path[length] == '/');
  }
  return last;
}

bool dir_make(int dir, const char *path)
{
  AUTO_CLOSE int made = make_dir(dir, path);
  return made >= 0;
}

// Opens the directory of `path`, which is made if it is missing; *name is the path's last part.
static int open_parent(int dir, const char *path, const char **name)
{
  const char *slash = strrchr(path, '/');
  *name = slash == NULL ? path : slash + 1;
  AUTO_FREE char *above = slash == NULL ? strdup(".") : strndup(path, (size_t)(slash - path));
  int parent = above == NULL ? -1 : open_dir(dir, above);
  return parent < 0 && errno == ENOENT ? make_dir(dir, above) : parent;
}

int dir_open(int dir, const char *path, int flags, mode_t mode)
{
  const char *name;
  AUTO_CLOSE int parent = open_parent(dir, path, &name);
  return parent < 0 ? -1 : open_beneath(parent, name, flags, mode);
}

bool dir_link_to(int dir, const char *path, const char *target)
{
  const char *name;
  AUTO_CLOSE int parent = open_parent(dir, path, &name);
  return parent >= 0 && symlinkat(target, parent, name) == 0;
}

bool dir_share_file(int dir, const char *from, const char *path)
{
  const char *from_name, *name;
  struct stat status;
  AUTO_CLOSE int from_parent = open_parent(dir, from, &from_name);
  AUTO_CLOSE int parent = open_parent(dir, path, &name);
  if (from_parent < 0 || parent < 0 ||
      fstatat(from_parent, from_name, &status, AT_SYMLINK_NOFOLLOW) != 0)
    return false;
  if (!S_ISREG(status.st_mode)) { // a relative link would lead elsewhere from another directory
    errno = EPERM;
    return false;
  }
  return linkat(from_parent, from_name, parent, name, 0) == 0;
}

void dir_remove_file(int dir, const char *path)
{
  const char *name;
  AUTO_CLOSE int parent = open_parent(dir, path, &name);
  if (parent >= 0)
    unlinkat(parent, name, 0);
}

bool dir_resolves(int dir, const char *path)
{
  AUTO_CLOSE int file = files_open_at(dir, path, O_PATH, 0, FILE_LINKS_KEPT);
  return file >= 0 || errno == ENOENT || errno == ENOTDIR;
}

// ---- removing

// Opens a directory so that its content can be listed and removed, whatever its mode was.
static DIR *open_listing(int parent, const char *name)
{
  char path[32];
  AUTO_CLOSE int found = open_dir(parent, name);
  if (found < 0)
    return NULL;
  snprintf(path, sizeof(path), "/proc/self/fd/%d", found);
  return chmod(path, 0700) == 0 ? opendir(path) : NULL;
}

// `depth` is twice that of unpacked files: a program that runs there may have made deeper ones.
static bool remove_at(int parent, const char *name, int depth)
{
  if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
    return true;
  if ((errno != EISDIR && errno != EPERM) || depth > 2 * MAX_DIR_DEPTH)
    return false;
  DIR *dir = open_listing(parent, name);
  bool removed = dir != NULL;
  struct dirent *entry;
  while (dir != NULL && (entry = readdir(dir)) != NULL)
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
      removed = remove_at(dirfd(dir), entry->d_name, depth + 1) && removed;
  if (dir != NULL)
    closedir(dir);
  return removed && unlinkat(parent, name, AT_REMOVEDIR) == 0;
}

bool dir_remove(int parent, const char *name)
{
  return remove_at(parent, name, 0);
}

bool dir_remove_path(const char *path)
{
  const char *name = strrchr(path, '/') + 1;
  AUTO_FREE char *above = strndup(path, (size_t)(name - path));
  AUTO_CLOSE int parent = above == NULL ? -1 : open(above, O_PATH | O_DIRECTORY | O_CLOEXEC);
  return parent >= 0 && dir_remove(parent, name);
}

const char *dir_temporary(void)
{
  const char *dir = getenv("TMPDIR");
  return dir != NULL && *dir == '/' ? dir : "/tmp";
}

char *dir_make_temporary(const char *prefix)
{
  char *path;
  if (asprintf(&path, "%s/%s-XXXXXX", dir_temporary(), prefix) < 0)
    return NULL;
  if (mkdtemp(path) != NULL)
    return path;
  int reason = errno;
  free(path);
  errno = reason;
  return NULL;
}
