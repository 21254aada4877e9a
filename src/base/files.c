// SPDX-License-Identifier: Apache-2.0
// Opens paths below a root; see files.h. The only state is whether the kernel has openat2.
#include "base/files.h"

#include "base/cleanup.h"
#include "base/path_walk.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define READ_BYTES 16384

const file_policy file_policy_anywhere = {.links = FILE_LINKS_ANYWHERE};
const file_policy file_policy_no_links = {.links = FILE_LINKS_NONE};

// ---- opening ----

static const uint64_t LINK_RULES[] = {
    [FILE_LINKS_ANYWHERE] = 0,
    [FILE_LINKS_KEPT] = RESOLVE_BENEATH,
    [FILE_LINKS_NONE] = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
};

static int openat2_reason; // why openat2 is not used; 0: it is

// RESOLVE_BENEATH refuses absolute paths with EXDEV. A kernel that answers otherwise (a seccomp
// profile that refuses unknown calls, an emulator) does not enforce the rules.
static void look_for_openat2(void)
{
  struct open_how how = {
      .flags = O_PATH | O_CLOEXEC,
      .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
  };
  AUTO_CLOSE int opened = (int)syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof(how));
  openat2_reason = opened >= 0 ? EINVAL : errno == EXDEV ? 0 : errno;
}

int files_walk_reason(void)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, look_for_openat2);
  return openat2_reason;
}

int files_open_at(int dir, const char *path, int flags, mode_t mode, file_links links)
{
  if ((flags & O_PATH) == 0) // the kernel refuses these two beside O_PATH
    flags |= O_NOCTTY | O_NONBLOCK;
  struct open_how how = {
      .flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
      .mode = mode,
      .resolve = LINK_RULES[links] | RESOLVE_NO_MAGICLINKS,
  };
  long result;
  do {
    result = files_walk_reason() == 0 ? syscall(SYS_openat2, dir, path, &how, sizeof(how))
                                      : path_walk(dir, path, &how);
  } while (result < 0 && (errno == EINTR || errno == EAGAIN));
  return (int)result;
}

error *files_split(const char *path, char **above, char **last)
{
  char real[PATH_MAX];
  size_t size = strlen(path);
  while (size > 1 && path[size - 1] == '/')
    size--;
  size_t begin = size;
  while (begin > 0 && path[begin - 1] != '/')
    begin--;
  slice name = {path + begin, size - begin};
  slice dir = begin == 0 ? slice_of(".") : (slice){path, begin > 1 ? begin - 1 : 1};
  if ((name.size == 0 || slice_equal_text(name, ".") || slice_equal_text(name, "..")) &&
      realpath(path, real) != NULL && strcmp(real, "/") != 0)
    return files_split(real, above, last);
  *above = text_copy(dir);
  *last = text_copy(name);
  return *above != NULL && *last != NULL ? NULL : error_no_memory();
}

char *files_absolute(const char *path)
{
  if (*path == '/')
    return strdup(path);
  AUTO_FREE char *dir = getcwd(NULL, 0);
  char *result;
  return dir != NULL && asprintf(&result, "%s/%s", dir, path) >= 0 ? result : NULL;
}

error *files_path_of(int descriptor, char **path)
{
  char link[64], target[PATH_MAX];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
  ssize_t size = readlink(link, target, sizeof(target));
  if (size < 0 || size == sizeof(target))
    return error_new(ERROR_INTERNAL, "failed to read the link '%s': %s", link,
                     strerror(size < 0 ? errno : ENAMETOOLONG));
  *path = strndup(target, (size_t)size);
  return *path == NULL ? error_no_memory() : NULL;
}

// The part of `path` below `root`; NULL when it is not below.
static const char *below(const char *path, const char *root)
{
  size_t size = strcmp(root, "/") == 0 ? 0 : strlen(root);
  if (strncmp(path, root, size) != 0)
    return NULL;
  return path[size] == '\0' ? "." : path[size] == '/' ? path + size + 1 : NULL;
}

// The text only finds the root; the kernel keeps the path below it.
static int open_below_roots(const string_list *roots, const char *path, int flags)
{
  for (size_t i = 0; i < roots->count; i++) {
    const char *rest = below(path, roots->items[i]);
    AUTO_CLOSE int root =
        rest == NULL ? -1 : open(roots->items[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
    int result = root < 0
                     ? -1
                     : files_open_at(root, rest[0] == '\0' ? "." : rest, flags, 0, FILE_LINKS_NONE);
    if (result >= 0)
      return result;
  }
  errno = EXDEV;
  return -1;
}

// For a path that leads out of the directory: it may lead below one of the policy's roots.
static int open_below_policy_roots(const file_root *root, const char *relative, int flags)
{
  char *path AUTO_FREE = NULL;
  AUTO_CLOSE int found = files_open_at(root->descriptor, relative, O_PATH, 0, FILE_LINKS_ANYWHERE);
  if (found < 0)
    return -1;
  AUTO_ERROR error *e = files_path_of(found, &path);
  if (e == NULL)
    return open_below_roots(&root->policy->roots, path, flags);
  errno = EXDEV;
  return -1;
}

// All paths are opened here. -1 with errno, which is EXDEV when the policy forbids the path.
static int open_path(const file_root *root, const char *relative, int flags)
{
  if (relative[0] == '/') {
    errno = EXDEV;
    return -1;
  }
  int result = files_open_at(root->descriptor, relative, flags, 0, root->policy->links);
  if (result >= 0 || errno != EXDEV || root->policy->roots.count == 0 ||
      root->policy->links != FILE_LINKS_KEPT)
    return result;
  return open_below_policy_roots(root, relative, flags);
}

bool files_stays_below(const char *path)
{
  if (path[0] == '/' || path[0] == '\0')
    return false;
  while (*path != '\0') {
    size_t size = strcspn(path, "/");
    if (size == 2 && path[0] == '.' && path[1] == '.')
      return false;
    path += size;
    path += *path == '/';
  }
  return true;
}

// ---- errors ----

static error_code code_of(int reason)
{
  switch (reason) {
  case ENOENT:
  case ENOTDIR:
    return ERROR_NOT_FOUND;
  case EMFILE:
  case ENFILE:
  case ENOMEM:
    return ERROR_UNAVAILABLE;
  case EXDEV:
  case ELOOP:
  case ENAMETOOLONG:
    return ERROR_INVALID_ARG;
  default:
    return ERROR_INTERNAL;
  }
}

static const char *words_of(int reason)
{
  return reason == ENOENT || reason == ENOTDIR ? "does not exist"
         : reason == EXDEV                     ? "leads out of its directory"
                                               : NULL;
}

// The error says where a link leads, and tells a broken link from an absent name.
static error *open_failure(const file_root *root, const char *relative, int reason)
{
  char target[PATH_MAX];
  const char *words = words_of(reason);
  ssize_t size = readlinkat(root->descriptor, relative, target, sizeof(target) - 1);
  if (size > 0 && relative[0] != '/' && root->policy->links != FILE_LINKS_NONE) {
    target[size] = '\0';
    if (words == NULL)
      return error_new(code_of(reason), "failed to open '%s', a link to '%s': %s", relative, target,
                       strerror(reason));
    return error_new(code_of(reason), "'%s' is a link to '%s', which %s", relative, target, words);
  }
  if (words == NULL)
    return error_new(code_of(reason), "failed to open '%s': %s", relative, strerror(reason));
  return error_new(code_of(reason), "'%s' %s", relative, words);
}

// Whether the tree itself is the reason, not a temporary or broken state of the machine.
static bool means_absent(int reason)
{
  static const int reasons[] = {ENOENT, ENOTDIR, EXDEV, ELOOP, ENAMETOOLONG, EACCES};
  for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
    if (reasons[i] == reason)
      return true;
  return false;
}

// ---- roots ----

void file_root_close(file_root *root)
{
  if (root->descriptor >= 0)
    close(root->descriptor);
  root->descriptor = -1;
}

error *files_open_root(const char *path, const file_policy *policy, file_root *root)
{
  *root = (file_root){open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), policy};
  if (root->descriptor < 0)
    return error_new(code_of(errno), "failed to open directory '%s': %s", path, strerror(errno));
  return NULL;
}

error *file_policy_add_root(file_policy *policy, const char *path)
{
  AUTO_ROOT file_root root = FILE_ROOT_CLOSED;
  char *resolved AUTO_FREE = NULL;
  RETURN_IF_ERROR(files_open_root(path, policy, &root));
  RETURN_IF_ERROR(files_path_of(root.descriptor, &resolved));
  return string_list_add(&policy->roots, resolved) ? NULL : error_no_memory();
}

void file_policy_fini(file_policy *policy)
{
  string_list_fini(&policy->roots);
}

// ---- looking ----

static file_kind kind_of(mode_t mode)
{
  if (S_ISREG(mode))
    return FILE_REGULAR;
  if (S_ISDIR(mode))
    return FILE_FOLDER;
  return FILE_OTHER;
}

static uint64_t nanoseconds(struct timespec time)
{
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

// A file moved over another keeps its mtime, as a rule; its ctime changes.
static uint64_t change_of(const struct stat *status)
{
  uint64_t content = nanoseconds(status->st_mtim), entry = nanoseconds(status->st_ctim);
  return content > entry ? content : entry;
}

static void fill_entry(file_entry *entry, const struct stat *status)
{
  uint64_t change = change_of(status);
  entry->kind = kind_of(status->st_mode);
  entry->bytes = entry->kind == FILE_REGULAR ? (uint64_t)status->st_size : 0;
  entry->change_ns = change > entry->change_ns ? change : entry->change_ns;
  entry->identity = ((uint64_t)status->st_dev * 0x9e3779b97f4a7c15u) ^ (uint64_t)status->st_ino;
}

// False with errno. A single name that is no link cannot lead out of the root: one call is enough.
static bool look(const file_root *root, const char *relative, file_entry *entry)
{
  struct stat status;
  *entry = (file_entry){.kind = FILE_ABSENT};
  if (strchr(relative, '/') == NULL && strcmp(relative, "..") != 0) {
    if (fstatat(root->descriptor, relative, &status, AT_SYMLINK_NOFOLLOW) != 0)
      return false;
    entry->is_link = S_ISLNK(status.st_mode);
    entry->change_ns = change_of(&status);
    if (!entry->is_link) {
      fill_entry(entry, &status);
      return true;
    }
  }
  // O_PATH, as opening a FIFO or device may block or trigger an action.
  AUTO_CLOSE int found = open_path(root, relative, O_PATH);
  if (found < 0 || fstat(found, &status) != 0)
    return false;
  fill_entry(entry, &status);
  return true;
}

error *files_look(const file_root *root, const char *relative, file_entry *entry)
{
  if (look(root, relative, entry) || means_absent(errno))
    return NULL;
  return open_failure(root, relative, errno);
}

error *files_kind(const file_root *root, const char *relative, file_kind *kind)
{
  file_entry entry;
  error *e = files_look(root, relative, &entry);
  *kind = entry.kind;
  return e;
}

bool files_exists(const file_root *root, const char *relative)
{
  AUTO_CLOSE int entry = open_path(root, relative, O_PATH | O_NOFOLLOW);
  return entry >= 0 || errno != ENOENT;
}

error *files_check_link(const file_root *root, const char *name)
{
  file_entry entry;
  if (look(root, name, &entry) || !entry.is_link)
    return NULL;
  return open_failure(root, name, errno);
}

// ---- files ----

static error *wrong_kind(const char *relative, file_kind kind)
{
  return error_new(ERROR_INVALID_ARG, "'%s' is not a %s", relative,
                   kind == FILE_FOLDER ? "directory" : "regular file");
}

static error *open_dir(const file_root *root, const char *relative, int *descriptor)
{
  file_entry entry;
  *descriptor = open_path(root, relative, O_RDONLY | O_DIRECTORY);
  if (*descriptor >= 0)
    return NULL;
  int reason = errno;
  if (reason == ENOTDIR && look(root, relative, &entry))
    return wrong_kind(relative, FILE_FOLDER);
  return open_failure(root, relative, reason);
}

// Opens the file that was checked; its name is not looked up again.
static error *open_regular(const file_root *root, const char *relative, int *descriptor)
{
  struct stat status;
  char link[64];
  AUTO_CLOSE int found = open_path(root, relative, O_PATH);
  *descriptor = -1;
  if (found < 0 || fstat(found, &status) != 0)
    return open_failure(root, relative, errno);
  if (!S_ISREG(status.st_mode))
    return wrong_kind(relative, FILE_REGULAR);
  snprintf(link, sizeof(link), "/proc/self/fd/%d", found);
  *descriptor = open(link, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  return *descriptor >= 0 ? NULL : open_failure(root, relative, errno);
}

error *files_open(const file_root *root, const char *relative, file_kind kind, int *descriptor)
{
  return kind == FILE_FOLDER ? open_dir(root, relative, descriptor)
                             : open_regular(root, relative, descriptor);
}

error *files_open_dir(const file_root *root, const char *relative, file_root *dir)
{
  dir->policy = root->policy;
  return open_dir(root, relative, &dir->descriptor);
}

error *files_enter(const file_root *root, const char *relative, file_root *dir)
{
  *dir = (file_root){open_path(root, relative, O_RDONLY | O_DIRECTORY), root->policy};
  return dir->descriptor >= 0 || means_absent(errno) ? NULL : open_failure(root, relative, errno);
}

bool files_fill(int descriptor, void *data, size_t *size)
{
  size_t wanted = *size;
  *size = 0;
  while (*size < wanted) {
    ssize_t got = read(descriptor, (char *)data + *size, wanted - *size);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return got == 0;
    *size += (size_t)got;
  }
  return true;
}

static error *read_all(int file, const char *name, size_t limit, buffer *content)
{
  size_t total = 0, size;
  do {
    char *end = buffer_reserve(content, READ_BYTES);
    if (end == NULL)
      return error_no_memory();
    size = READ_BYTES;
    if (!files_fill(file, end, &size))
      return error_new(ERROR_INTERNAL, "failed to read '%s': %s", name, strerror(errno));
    total += size;
    if (total > limit)
      return error_new(ERROR_INVALID_ARG, "'%s' is larger than the limit of %zu bytes", name,
                       limit);
    content->size += size;
  } while (size == READ_BYTES);
  return NULL;
}

error *files_read(const file_root *root, const char *relative, size_t limit, buffer *content)
{
  AUTO_CLOSE int file = -1;
  RETURN_IF_ERROR(files_open(root, relative, FILE_REGULAR, &file));
  return read_all(file, relative, limit, content);
}

error *files_read_path(const char *path, size_t limit, buffer *content)
{
  AUTO_CLOSE int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return error_new(code_of(errno), "failed to open '%s': %s", path, strerror(errno));
  return read_all(file, path, limit, content);
}

size_t files_write_most(int descriptor, const void *data, size_t size)
{
  size_t done = 0;
  while (done < size) {
    ssize_t written = write(descriptor, (const char *)data + done, size - done);
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      break;
    done += (size_t)written;
  }
  return done;
}

bool files_write(int descriptor, const void *data, size_t size)
{
  return files_write_most(descriptor, data, size) == size;
}

// A directory that is being read; opendir() would make three more system calls.
typedef struct listing {
  int dir;
  ssize_t size; // of the entries that the kernel gave
  ssize_t next; // where among them
  alignas(struct dirent64) char entries[4096];
} listing;

// The next name without "." and ".."; NULL at the end, and with errno when it failed.
static const char *next_name(listing *l)
{
  for (;;) {
    errno = 0;
    if (l->next >= l->size) {
      l->size = getdents64(l->dir, l->entries, sizeof(l->entries));
      l->next = 0;
      if (l->size <= 0)
        return NULL;
    }
    const struct dirent64 *entry = (const struct dirent64 *)(l->entries + l->next);
    l->next += entry->d_reclen;
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
      return entry->d_name;
  }
}

error *files_list(const file_root *root, const char *relative, string_list *names)
{
  AUTO_CLOSE int opened = -1;
  RETURN_IF_ERROR(files_open(root, relative, FILE_FOLDER, &opened));
  listing l = {.dir = opened};
  const char *name;
  while ((name = next_name(&l)) != NULL)
    if (!string_list_add(names, name))
      return error_no_memory();
  if (errno != 0)
    return error_new(ERROR_INTERNAL, "failed to list '%s': %s", relative, strerror(errno));
  string_list_sort(names);
  return NULL;
}
