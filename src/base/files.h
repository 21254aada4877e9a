// SPDX-License-Identifier: Apache-2.0
// Files below a directory that the operator named. What a path may lead to is one policy, kept by
// the kernel (openat2, or path_walk.h where there is none) and not by tests of strings; all
// descriptors are close-on-exec. A FIFO, socket or device is looked at and never opened. Any
// thread.
#ifndef NEREID_BASE_FILES_H
#define NEREID_BASE_FILES_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/string_list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// Which links below a directory are followed. None leads through the kernel's own ones
// (/proc/self/fd).
typedef enum file_links {
  FILE_LINKS_ANYWHERE, // all: whoever wrote them is the operator
  FILE_LINKS_KEPT,     // those that stay below the directory or lead below one of the roots
  FILE_LINKS_NONE,     // none: a stranger may have written them
} file_links;

typedef struct file_policy {
  file_links links;
  string_list roots; // of FILE_LINKS_KEPT: absolute, without links
} file_policy;

extern const file_policy file_policy_anywhere, file_policy_no_links;

// Adds the directory at `path`, as it is found now. NOT_FOUND and others as files_open_root.
error *file_policy_add_root(file_policy *policy, const char *path);
void file_policy_fini(file_policy *policy);

// An open directory and what paths below it may do.
typedef struct file_root {
  int descriptor;            // -1: not open
  const file_policy *policy; // borrowed
} file_root;

#define FILE_ROOT_CLOSED ((file_root){.descriptor = -1})

void file_root_close(file_root *root); // may be closed already
#define AUTO_ROOT __attribute__((cleanup(file_root_close)))

// Opens the directory at `path`, which is the operator's own and may be anything. The caller closes
// *root, also after an error.
error *files_open_root(const char *path, const file_policy *policy, file_root *root);

// True for a path that is not empty, not absolute and has no "..": by itself it leads nowhere but
// below the directory that it is joined to. For names that come from clients.
bool files_stays_below(const char *path);

// What a look-up found; an expected outcome, not an error.
typedef enum file_kind {
  FILE_ABSENT,
  FILE_REGULAR,
  FILE_FOLDER,
  FILE_OTHER, // a FIFO, socket or device: never opened
} file_kind;

// What is at a path, links followed.
typedef struct file_entry {
  file_kind kind;
  bool is_link;       // the name itself, when the path is a single name
  uint64_t bytes;     // of a regular file
  uint64_t change_ns; // the last change of content or entry, the link's own too; since 1970
  uint64_t identity;  // equal for the same file or directory, and hardly for others
} file_entry;

// What is at `relative` below `root`. Paths that the policy forbids, that loop or may not be
// searched give FILE_ABSENT. Errors: UNAVAILABLE when memory or descriptors are short, INTERNAL
// when the disk fails: then nobody knows what is there.
error *files_look(const file_root *root, const char *relative, file_entry *entry);
error *files_kind(const file_root *root, const char *relative, file_kind *kind);

// False when there is surely nothing of this name: a link to nowhere exists, and so does what may
// not be looked at.
bool files_exists(const file_root *root, const char *relative);

// NULL unless `name`, an entry of `root` itself, is a link that cannot be followed: then the
// reason.
error *files_check_link(const file_root *root, const char *name);

// Opens a regular file or a directory below `root`; what was looked at is what is opened. Errors:
// NOT_FOUND when absent, INVALID_ARG when the policy forbids the path or it is of the wrong kind,
// UNAVAILABLE when memory or descriptors are short, INTERNAL for the rest. The caller closes
// *descriptor.
error *files_open(const file_root *root, const char *relative, file_kind kind, int *descriptor);

// As files_open of a directory, for paths below it under the same policy. The caller closes
// *directory, also after an error.
error *files_open_dir(const file_root *root, const char *relative, file_root *dir);
// The same, but what files_kind calls absent is no error: the directory is closed then.
error *files_enter(const file_root *root, const char *relative, file_root *dir);

// Cuts the path's last part off: "a/b/" is "a" and "b", "b" is "." and "b". What is no name (".",
// "..") is looked up first. Both for free(), also after an error.
error *files_split(const char *path, char **above, char **last);

// `path` from the root on: a relative one is below the working directory. For free(); NULL with
// errno.
char *files_absolute(const char *path);

// The path of what `descriptor` is, links resolved, for free().
error *files_path_of(int descriptor, char **path);

// openat(2) with the rule `links` and close-on-exec: below `dir`, but for FILE_LINKS_ANYWHERE. -1
// with errno.
int files_open_at(int dir, const char *path, int flags, mode_t mode, file_links links);

// 0 where the kernel's openat2 opens paths, else the errno with which it refused: path_walk.h opens
// them. It is asked once, when a path is first opened.
int files_walk_reason(void);

// Appends a regular file's content to `content`; more than `limit` bytes is INVALID_ARG.
error *files_read(const file_root *root, const char *relative, size_t limit, buffer *content);

// The same for the file at `path`, which is the operator's own and may be anything that can be
// read. Errors name the path.
error *files_read_path(const char *path, size_t limit, buffer *content);

// Reads until `*size` bytes are there or the file ends, and says in *size how many. False with
// errno when it cannot.
bool files_fill(int descriptor, void *data, size_t *size);

// Writes all of `data` to a descriptor. False with errno when it cannot: a part may be written
// then.
bool files_write(int descriptor, const void *data, size_t size);
// The same; returns how many bytes were written, all but after an error.
size_t files_write_most(int descriptor, const void *data, size_t size);

// Names of the entries in `relative` ("." for the root itself), sorted, without "." and "..".
// Hidden ones included.
error *files_list(const file_root *root, const char *relative, string_list *names);

#endif
