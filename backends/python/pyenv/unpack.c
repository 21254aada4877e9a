// SPDX-License-Identifier: Apache-2.0
// Reads an archive by libarchive, and checks each entry before it is created.
#include "pyenv/unpack.h"

#include "archive_library.h"
#include "backend_error.h"
#include "base/cleanup.h"
#include "base/dir.h"
#include "base/files.h"
#include "base/string_list.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#define BLOCK_BYTES (1 << 16)
#define SET_ID      (S_ISUID | S_ISGID)

static const char TOO_LARGE[] = "there are more bytes than are allowed (environment-most-bytes)";
static const char LEADS_OUT[] = "the link leads out of the environment";
static const char INTERPRETER[] = "bin/python"; // how its name begins

typedef struct unpacking {
  const archive_library *library;
  struct archive *archive;
  const char *path;
  int dir;
  const unpack_limits *limits;
  uint64_t bytes, entries;
  string_list links; // names of symbolic links
} unpacking;

static TRITONSERVER_Error *refuse(const unpacking *self, const char *entry, const char *why)
{
  return backend_error_invalid("archive '%s': '%.200s': %s", self->path, entry, why);
}

static TRITONSERVER_Error *unreadable(const unpacking *self)
{
  const char *why = self->library->error_string(self->archive);
  return backend_error_invalid("archive '%s' cannot be read: %s", self->path,
                               why == NULL ? "unknown fault" : why);
}

// ---- names

// Moves past the next part of a path that is not ".", and returns its length, 0 at the end.
static size_t next_part(const char **path, const char **part)
{
  for (;;) {
    *part = *path + strspn(*path, "/");
    size_t length = strcspn(*part, "/");
    *path = *part + length;
    if (length != 1 || **part != '.')
      return length;
  }
}

static bool is_up(const char *part, size_t length)
{
  return length == 2 && strncmp(part, "..", 2) == 0;
}

// "./a//b/" becomes "a/b"; "" is the directory itself. NULL for what is absolute, has "..", or is
// too long or deep. The kernel would refuse the first two anyway, but not say which it is.
static const char *clean_name(const char *name, char *clean)
{
  size_t length = 0, added;
  const char *part;
  if (name == NULL || *name == '/')
    return NULL;
  for (int depth = 1; (added = next_part(&name, &part)) > 0; depth++) {
    if (is_up(part, added) || length + added + 2 > PATH_MAX || added > NAME_MAX ||
        depth > MAX_DIR_DEPTH)
      return NULL;
    if (length != 0)
      clean[length++] = '/';
    memcpy(clean + length, part, added);
    length += added;
  }
  clean[length] = '\0';
  return clean;
}

// Whether a link at `name` to `target` stays inside. It may go up at most as far as the link is
// deep.
static bool stays_inside(const char *name, const char *target)
{
  int depth = 0;
  size_t length;
  const char *part;
  for (const char *at = name; *at != '\0'; at++)
    depth += *at == '/';
  if (*target == '/')
    return false;
  while (depth >= 0 && (length = next_part(&target, &part)) > 0)
    depth += is_up(part, length) ? -1 : 1;
  return depth >= 0;
}

// A virtual environment's interpreter is a link to the machine's, which is only executed.
static bool is_interpreter(const char *name)
{
  size_t length = strlen(INTERPRETER);
  return strncmp(name, INTERPRETER, length) == 0 && strchr(name + length, '/') == NULL;
}

static bool is_interpreter_link(const char *name, const char *target)
{
  const char *last = strrchr(target, '/');
  return is_interpreter(name) && *target == '/' && strncmp(last, "/python", strlen("/python")) == 0;
}

// ---- entries

// Holes become zeros.
static TRITONSERVER_Error *write_content(unpacking *self, const char *name, int file)
{
  char block[BLOCK_BYTES];
  for (;;) {
    la_ssize_t size = self->library->read_data(self->archive, block, sizeof(block));
    if (size == 0)
      return NULL;
    if (size < ARCHIVE_WARN)
      return unreadable(self);
    if (size < 0) // a warning, or to be tried again
      continue;
    self->bytes += (size_t)size;
    if (self->bytes > self->limits->bytes)
      return refuse(self, name, TOO_LARGE);
    if (!files_write(file, block, (size_t)size))
      return refuse(self, name, strerror(errno));
  }
}

// Sets the files' times: Python uses a compiled file only if its source has the recorded time.
static TRITONSERVER_Error *make_file(unpacking *self, const char *name, struct archive_entry *entry)
{
  mode_t mode = (self->library->entry_mode(entry) & 0111) != 0 ? 0700 : 0600;
  struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                              {.tv_sec = self->library->entry_mtime(entry),
                               .tv_nsec = self->library->entry_mtime_nsec(entry)}};
  dir_remove_file(self->dir, name); // the later of two entries counts
  AUTO_CLOSE int file = dir_open(self->dir, name, O_WRONLY | O_CREAT | O_EXCL, mode);
  if (file < 0)
    return refuse(self, name, strerror(errno));
  BACKEND_RETURN_IF_ERROR(write_content(self, name, file));
  if (self->library->entry_mtime_is_set(entry) && futimens(file, times) != 0)
    return refuse(self, name, strerror(errno));
  return NULL;
}

static TRITONSERVER_Error *make_symbolic_link(unpacking *self, const char *name, const char *target)
{
  if (target == NULL || *target == '\0' ||
      (!stays_inside(name, target) && !is_interpreter_link(name, target)))
    return refuse(self, name, LEADS_OUT);
  if (!string_list_add(&self->links, name))
    return backend_error_no_memory("an archive");
  dir_remove_file(self->dir, name);
  return dir_link_to(self->dir, name, target) ? NULL : refuse(self, name, strerror(errno));
}

static TRITONSERVER_Error *make_hard_link(const unpacking *self, const char *name,
                                          const char *target)
{
  char clean[PATH_MAX];
  if (clean_name(target, clean) == NULL || *clean == '\0')
    return refuse(self, name, LEADS_OUT);
  if (strcmp(clean, name) == 0)
    return NULL;
  dir_remove_file(self->dir, name);
  return dir_share_file(self->dir, clean, name) ? NULL : refuse(self, name, strerror(errno));
}

static TRITONSERVER_Error *make_entry(unpacking *self, struct archive_entry *entry)
{
  char clean[PATH_MAX];
  const char *given = self->library->entry_pathname(entry);
  const char *name = clean_name(given, clean), *shown = given == NULL ? "" : given;
  if (++self->entries > self->limits->entries)
    return refuse(self, shown, "there are more entries than are allowed");
  if (name == NULL)
    return refuse(self, shown, "the name is absolute, has \"..\", or is too long or too deep");
  if (self->library->entry_hardlink(entry) != NULL)
    return make_hard_link(self, name, self->library->entry_hardlink(entry));
  mode_t type = self->library->entry_filetype(entry);
  if (type == S_IFDIR)
    return dir_make(self->dir, name) ? NULL : refuse(self, name, strerror(errno));
  if (*name == '\0')
    return refuse(self, ".", "it is no directory");
  if (type == S_IFLNK)
    return make_symbolic_link(self, name, self->library->entry_symlink(entry));
  if (type != S_IFREG)
    return refuse(self, name, "it is neither a file, a directory nor a link");
  if ((self->library->entry_mode(entry) & SET_ID) != 0)
    return refuse(self, name, "it is setuid or setgid");
  return make_file(self, name, entry);
}

static TRITONSERVER_Error *make_entries(unpacking *self)
{
  for (;;) {
    struct archive_entry *entry;
    int result = self->library->read_next_header(self->archive, &entry);
    if (result == ARCHIVE_EOF)
      return self->entries > 0 ? NULL : refuse(self, "", "the archive is empty");
    if (result == ARCHIVE_RETRY)
      continue;
    if (result < ARCHIVE_WARN)
      return unreadable(self);
    BACKEND_RETURN_IF_ERROR(make_entry(self, entry));
  }
}

// Links that each stay inside may lead out when combined.
static TRITONSERVER_Error *check_links(const unpacking *self)
{
  for (size_t i = 0; i < self->links.count; i++) {
    const char *name = self->links.items[i];
    if (!is_interpreter(name) && !dir_resolves(self->dir, name))
      return refuse(self, name, LEADS_OUT);
  }
  return NULL;
}

// The formats that pack environments.
static TRITONSERVER_Error *open_archive(unpacking *self, int file)
{
  const archive_library *library = self->library;
  library->read_support_filter_gzip(self->archive);
  library->read_support_filter_bzip2(self->archive);
  library->read_support_filter_xz(self->archive);
  library->read_support_filter_zstd(self->archive);
  library->read_support_format_tar(self->archive);
  library->read_support_format_zip(self->archive);
  return library->read_open_fd(self->archive, file, BLOCK_BYTES) == ARCHIVE_OK ? NULL
                                                                               : unreadable(self);
}

TRITONSERVER_Error *unpack_archive(int file, const char *path, int dir, const unpack_limits *limits)
{
  unpacking self = {.path = path, .dir = dir, .limits = limits};
  BACKEND_RETURN_IF_ERROR(archive_library_open(path, &self.library));
  self.archive = self.library->read_new();
  if (self.archive == NULL)
    return backend_error_no_memory("an archive");
  TRITONSERVER_Error *error = open_archive(&self, file);
  if (error == NULL)
    error = make_entries(&self);
  self.library->read_free(self.archive);
  if (error == NULL)
    error = check_links(&self);
  string_list_fini(&self.links);
  return error;
}
