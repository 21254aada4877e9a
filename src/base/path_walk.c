// SPDX-License-Identifier: Apache-2.0
// Walks a path name by name; see path_walk.h. Each directory is opened in the one before it, only
// if it is no link. A link is read, and its text replaces it in the path, so the rules hold for its
// target too. For ".." the names that led here are walked again without the last: the kernel's ".."
// would follow a directory that was moved meanwhile.
#include "base/path_walk.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#define MAX_LINKS          40     // on a path: the kernel's number
#define MOUNT_NO_SYMLINKS  0x2000 // of statfs: mounted with nosymfollow
#define DIRECTORY_ON_A_WAY (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

typedef struct walk {
  const struct open_how *how;
  int root;          // where the walk begins; the caller's
  int here;          // the directory so far; ours unless it is `root`
  unsigned links;    // followed so far
  size_t names_size; // of `names`
  char *rest;        // the rest of the path, in `text`
  char text[PATH_MAX];
  char names[PATH_MAX]; // from the root to here, each with its '/'; unused without RESOLVE_BENEATH
} walk;

static bool stays_beneath(const walk *w)
{
  return (w->how->resolve & RESOLVE_BENEATH) != 0;
}

static bool refuse(int reason)
{
  errno = reason;
  return false;
}

// Makes `next` the directory so far. False, with errno unchanged, when it is -1.
static bool go_on_in(walk *w, int next)
{
  if (next < 0)
    return false;
  if (w->here != w->root)
    close(w->here);
  w->here = next;
  return true;
}

static void go_back_to_root(walk *w)
{
  if (w->here != w->root)
    close(w->here);
  w->here = w->root;
}

// Cuts the next name off the rest: "" after a last '/' or when nothing is left.
static char *take_name(walk *w, bool *last)
{
  char *name = w->rest + strspn(w->rest, "/");
  size_t size = strcspn(name, "/");
  *last = name[size] == '\0';
  name[size] = '\0';
  w->rest = name + size + !*last;
  return name;
}

static bool is_here(const char *name)
{
  return *name == '\0' || strcmp(name, ".") == 0;
}

static bool is_above(const char *name)
{
  return strcmp(name, "..") == 0;
}

// ---- directories

static bool open_dir_here(walk *w, const char *name)
{
  return go_on_in(w, openat(w->here, name, DIRECTORY_ON_A_WAY));
}

static bool enter(walk *w, const char *name)
{
  size_t size = strlen(name);
  if (stays_beneath(w) && w->names_size + size + 1 >= sizeof(w->names))
    return refuse(ENAMETOOLONG);
  if (!open_dir_here(w, name))
    return false;
  if (stays_beneath(w)) {
    memcpy(w->names + w->names_size, name, size);
    w->names[w->names_size + size] = '/';
    w->names_size += size + 1;
  }
  return true;
}

// Goes to the parent by walking again the names that led here.
static bool rise_beneath(walk *w)
{
  char name[NAME_MAX + 1];
  if (w->names_size == 0)
    return refuse(EXDEV);
  w->names_size--;
  while (w->names_size > 0 && w->names[w->names_size - 1] != '/')
    w->names_size--;
  go_back_to_root(w);
  for (size_t at = 0; at < w->names_size;) {
    size_t size = (size_t)((char *)memchr(w->names + at, '/', w->names_size - at) - w->names) - at;
    memcpy(name, w->names + at, size);
    name[size] = '\0';
    if (!open_dir_here(w, name))
      return false;
    at += size + 1;
  }
  return true;
}

static bool rise(walk *w)
{
  return stays_beneath(w) ? rise_beneath(w) : open_dir_here(w, "..");
}

// ---- links

// Whether the link may be followed at all.
static bool may_follow(walk *w, int link, const struct stat *status)
{
  struct stat dir;
  struct statfs system;
  if ((w->how->resolve & RESOLVE_NO_SYMLINKS) != 0 || ++w->links > MAX_LINKS)
    return refuse(ELOOP);
  if (fstatfs(link, &system) != 0 || fstatat(w->here, "", &dir, AT_EMPTY_PATH) != 0)
    return false;
  if (system.f_type == PROC_SUPER_MAGIC || (system.f_flags & MOUNT_NO_SYMLINKS) != 0)
    return refuse(ELOOP);
  mode_t everybodys = S_ISVTX | S_IWOTH;
  if ((dir.st_mode & everybodys) == everybodys && status->st_uid != geteuid() &&
      status->st_uid != dir.st_uid)
    return refuse(EACCES);
  return true;
}

// Puts the link's target before the rest of the path.
static bool put_target(walk *w, int link, bool last)
{
  char target[PATH_MAX];
  ssize_t got = readlinkat(link, "", target, sizeof(target));
  if (got <= 0)
    return got < 0 ? false : refuse(ENOENT);
  size_t size = (size_t)got, rest = strlen(w->rest);
  if (size + !last + rest >= sizeof(w->text))
    return refuse(ENAMETOOLONG);
  memmove(w->text + size + !last, w->rest, rest + 1);
  memcpy(w->text, target, size);
  if (!last)
    w->text[size] = '/';
  w->rest = w->text;
  return true;
}

static bool begin(walk *w)
{
  if (*w->rest != '/')
    return true;
  return stays_beneath(w) ? refuse(EXDEV) : go_on_in(w, open("/", DIRECTORY_ON_A_WAY));
}

// If `name` is a link, the walk continues with its target. False with errno, which is EINVAL when
// it is no link.
static bool follow(walk *w, const char *name, bool last)
{
  struct stat status;
  AUTO_CLOSE int link = openat(w->here, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (link < 0 || fstat(link, &status) != 0)
    return false;
  if (!S_ISLNK(status.st_mode))
    return refuse(EINVAL);
  return may_follow(w, link, &status) && put_target(w, link, last) && begin(w);
}

// ---- the way

// Enters the directory to which a name on the way leads.
static bool pass(walk *w, const char *name)
{
  if (is_here(name))
    return true;
  if (is_above(name))
    return rise(w);
  if (enter(w, name))
    return true;
  if (errno != ENOTDIR)
    return false;
  return follow(w, name, false) || (errno == EINVAL && refuse(ENOTDIR));
}

static bool is_link(int descriptor)
{
  struct stat status;
  return fstat(descriptor, &status) == 0 && S_ISLNK(status.st_mode);
}

// Opens the last name. False: it was a link, and the walk continues with its target; else *opened
// is a descriptor, or -1 with errno.
static bool open_last(walk *w, const char *name, int *opened)
{
  int flags = (int)w->how->flags | O_CLOEXEC;
  *opened = -1;
  if (is_above(name) && !rise(w))
    return true;
  if (is_here(name) || is_above(name))
    name = ".";
  *opened = openat(w->here, name, flags | O_NOFOLLOW, (mode_t)w->how->mode);
  bool found = *opened >= 0 && ((flags & O_PATH) == 0 || !is_link(*opened));
  if (found || (flags & O_NOFOLLOW) != 0)
    return true;
  int reason = *opened >= 0 ? ELOOP : errno;
  cleanup_close(opened);
  *opened = -1;
  errno = reason;
  if (reason != ELOOP && reason != ENOTDIR) // the kernel's errors for a link
    return true;
  if (follow(w, name, true))
    return false;
  if (errno == EINVAL)
    errno = reason;
  return true;
}

static int walk_on(walk *w)
{
  int opened;
  bool last;
  if (!begin(w))
    return -1;
  for (;;) {
    char *name = take_name(w, &last);
    if (strlen(name) > NAME_MAX) {
      errno = ENAMETOOLONG;
      return -1;
    }
    if (last && open_last(w, name, &opened))
      return opened;
    if (!last && !pass(w, name))
      return -1;
  }
}

int path_walk(int dir, const char *path, const struct open_how *how)
{
  walk w;
  size_t size = strlen(path);
  if (size == 0 || size >= sizeof(w.text)) {
    errno = size == 0 ? ENOENT : ENAMETOOLONG;
    return -1;
  }
  w.how = how;
  w.root = w.here = dir;
  w.links = 0;
  w.names_size = 0;
  w.rest = memcpy(w.text, path, size + 1);
  int opened = walk_on(&w), reason = errno;
  go_back_to_root(&w);
  errno = reason;
  return opened;
}
