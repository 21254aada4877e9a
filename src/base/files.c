// Path resolution under a root descriptor (design rule D2).
#include "base/files.h"

#include "base/cleanup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdalign.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define READ_BYTES       16384
#define TREE_DEPTH_LIMIT 32 // folders below a model; deeper ones do not count as changes

static int open_beneath(int folder, const char *relative, int flags)
{
  if ((flags & O_PATH) == 0) // the kernel refuses these two beside O_PATH
    flags |= O_NOCTTY | O_NONBLOCK;
  struct open_how how = {
      .flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
      .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
  };
  long result;
  do {
    result = syscall(SYS_openat2, folder, relative, &how, sizeof(how));
  } while (result < 0 && (errno == EINTR || errno == EAGAIN));
  return (int)result;
}

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
  default:
    return ERROR_INTERNAL;
  }
}

error *files_open_root(const char *path, int *folder)
{
  *folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (*folder < 0)
    return error_new(code_of(errno), "failed to open folder '%s': %s", path, strerror(errno));
  return NULL;
}

static file_kind kind_of(mode_t mode)
{
  if (S_ISREG(mode))
    return FILE_REGULAR;
  if (S_ISDIR(mode))
    return FILE_FOLDER;
  return FILE_OTHER;
}

// Whether the reason lies in the tree, and is no passing or broken state of the machine.
static bool means_absent(int reason)
{
  static const int reasons[] = {ENOENT, ENOTDIR, EXDEV, ELOOP, ENAMETOOLONG, EACCES};
  for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
    if (reasons[i] == reason)
      return true;
  return false;
}

bool files_exists(int folder, const char *relative)
{
  AUTO_CLOSE int entry = open_beneath(folder, relative, O_PATH | O_NOFOLLOW);
  return entry >= 0 || errno != ENOENT;
}

static error *open_failure(const char *relative, int reason)
{
  switch (reason) {
  case ENOENT:
  case ENOTDIR:
    return error_new(ERROR_NOT_FOUND, "'%s' does not exist", relative);
  case EXDEV:
    return error_new(ERROR_INVALID_ARG, "'%s' leads out of its folder", relative);
  case ELOOP:
  case ENAMETOOLONG:
    return error_new(ERROR_INVALID_ARG, "'%s': %s", relative, strerror(reason));
  case EMFILE:
  case ENFILE:
  case ENOMEM:
    return error_new(ERROR_UNAVAILABLE, "failed to open '%s': %s", relative, strerror(reason));
  default:
    return error_new(code_of(reason), "failed to open '%s': %s", relative, strerror(reason));
  }
}

// What `relative` stands for; false with errno. A single name that is no link cannot lead out: one
// call tells.
static bool look(int folder, const char *relative, struct stat *status)
{
  if (strchr(relative, '/') == NULL && strcmp(relative, "..") != 0) {
    if (fstatat(folder, relative, status, AT_SYMLINK_NOFOLLOW) != 0)
      return false;
    if (!S_ISLNK(status->st_mode))
      return true;
  }
  // A path descriptor: opening a FIFO or device for real may block or act.
  AUTO_CLOSE int entry = open_beneath(folder, relative, O_PATH);
  return entry >= 0 && fstat(entry, status) == 0;
}

error *files_look(int folder, const char *relative, file_kind *kind, uint64_t *change_ns)
{
  struct stat status;
  *kind = FILE_ABSENT;
  *change_ns = 0;
  if (!look(folder, relative, &status))
    return means_absent(errno) ? NULL : open_failure(relative, errno);
  *kind = kind_of(status.st_mode);
  *change_ns = (uint64_t)status.st_mtim.tv_sec * 1000000000u + (uint64_t)status.st_mtim.tv_nsec;
  return NULL;
}

error *files_kind(int folder, const char *relative, file_kind *kind)
{
  uint64_t change_ns;
  return files_look(folder, relative, kind, &change_ns);
}

error *files_open(int folder, const char *relative, file_kind kind, int *descriptor)
{
  struct stat status;
  if (!look(folder, relative, &status))
    return open_failure(relative, errno);
  if (kind_of(status.st_mode) != kind)
    return error_new(ERROR_INVALID_ARG, "'%s' is not a %s", relative,
                     kind == FILE_FOLDER ? "folder" : "regular file");
  *descriptor = open_beneath(folder, relative, O_RDONLY | (kind == FILE_FOLDER ? O_DIRECTORY : 0));
  if (*descriptor < 0)
    return open_failure(relative, errno);
  return NULL;
}

static error *read_all(int file, const char *name, size_t limit, buffer *content)
{
  size_t total = 0;
  for (;;) {
    char *end = buffer_reserve(content, READ_BYTES);
    if (end == NULL)
      return error_no_memory();
    ssize_t got = read(file, end, READ_BYTES);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return error_new(ERROR_INTERNAL, "failed to read '%s': %s", name, strerror(errno));
    if (got == 0)
      return NULL;
    total += (size_t)got;
    if (total > limit)
      return error_new(ERROR_INVALID_ARG, "'%s' is larger than the limit of %zu bytes", name,
                       limit);
    content->size += (size_t)got;
  }
}

error *files_read(int folder, const char *relative, size_t limit, buffer *content)
{
  AUTO_CLOSE int file = -1;
  RETURN_IF_ERROR(files_open(folder, relative, FILE_REGULAR, &file));
  return read_all(file, relative, limit, content);
}

error *files_read_path(const char *path, size_t limit, buffer *content)
{
  AUTO_CLOSE int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return open_failure(path, errno);
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

// A folder that is read; opendir() would ask the kernel three times more.
typedef struct listing {
  int folder;
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
      l->size = getdents64(l->folder, l->entries, sizeof(l->entries));
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

static error *list_failure(const char *relative)
{
  return error_new(ERROR_INTERNAL, "failed to list '%s': %s", relative, strerror(errno));
}

error *files_list(int folder, const char *relative, string_list *names)
{
  AUTO_CLOSE int opened = open_beneath(folder, relative, O_RDONLY | O_DIRECTORY);
  if (opened < 0)
    return open_failure(relative, errno);
  listing l = {.folder = opened};
  const char *name;
  while ((name = next_name(&l)) != NULL)
    if (!string_list_add(names, name))
      return error_no_memory();
  if (errno != 0)
    return list_failure(relative);
  string_list_sort(names);
  return NULL;
}

static error *newest_below(int folder, const char *relative, int depth, file_kind *kind,
                           uint64_t *newest)
{
  uint64_t change;
  file_kind below;
  RETURN_IF_ERROR(files_look(folder, relative, kind, &change));
  *newest = change > *newest ? change : *newest;
  if (*kind != FILE_FOLDER || depth == 0)
    return NULL;
  AUTO_CLOSE int opened = open_beneath(folder, relative, O_RDONLY | O_DIRECTORY);
  if (opened < 0)
    return means_absent(errno) ? NULL : open_failure(relative, errno);
  listing l = {.folder = opened};
  const char *name;
  while ((name = next_name(&l)) != NULL)
    RETURN_IF_ERROR(newest_below(opened, name, depth - 1, &below, newest));
  return errno == 0 ? NULL : list_failure(relative);
}

error *files_newest_change(int folder, const char *relative, file_kind *kind, uint64_t *newest_ns)
{
  *newest_ns = 0;
  return newest_below(folder, relative, TREE_DEPTH_LIMIT, kind, newest_ns);
}
