// SPDX-License-Identifier: Apache-2.0
// Files below a directory that the operator named. A policy says where paths may lead. The kernel
// enforces it (openat2, or path_walk.h where there is none), not tests of strings. All descriptors
// are close-on-exec. FIFOs, sockets and devices are looked at but never opened. Any thread.
#ifndef NEREID_BASE_FILES_H
#define NEREID_BASE_FILES_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/string_list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// Which links below a directory are followed. The kernel's own links (/proc/self/fd) never are.
typedef enum file_links {
  FILE_LINKS_ANYWHERE, // all: the operator wrote them
  FILE_LINKS_KEPT,     // those that stay below the directory or lead below one of the roots
  FILE_LINKS_NONE,     // none: a stranger may have written them
} file_links;

typedef struct file_policy {
  file_links links;
  string_list roots; // of FILE_LINKS_KEPT: absolute, without links
} file_policy;

extern const file_policy file_policy_anywhere, file_policy_no_links;

// Adds the directory to which `path` leads now. Errors as files_open_root.
error *file_policy_add_root(file_policy *policy, const char *path);
void file_policy_fini(file_policy *policy);

// An open directory, and the policy for paths below it.
typedef struct file_root {
  int descriptor;            // -1: not open
  const file_policy *policy; // borrowed
} file_root;

#define FILE_ROOT_CLOSED ((file_root){.descriptor = -1})

void file_root_close(file_root *root); // may be closed already
#define AUTO_ROOT __attribute__((cleanup(file_root_close)))

// Opens the directory at `path`. The path is the operator's and unrestricted. The caller closes
// *root, also after an error.
error *files_open_root(const char *path, const file_policy *policy, file_root *root);

// True for a path that is not empty, not absolute and has no "..": joined to a directory it stays
// below it, links aside. For names that come from clients.
bool files_stays_below(const char *path);

// The result of a look-up; absence is an expected outcome, not an error.
typedef enum file_kind {
  FILE_ABSENT,
  FILE_REGULAR,
  FILE_FOLDER,
  FILE_OTHER, // a FIFO, socket or device: never opened
} file_kind;

// The file at a path, links followed.
typedef struct file_entry {
  file_kind kind;
  bool is_link;       // for a path of a single name: whether that name is a link
  uint64_t bytes;     // of a regular file
  uint64_t change_ns; // since 1970: the last change of content or entry, also of the link itself
  uint64_t identity;  // equal for the same file or directory, rarely for different ones
} file_entry;

// Looks at `relative` below `root`. Paths that the policy forbids, that loop or may not be searched
// give FILE_ABSENT. Errors: UNAVAILABLE when memory or descriptors are short, INTERNAL when the
// disk fails.
error *files_look(const file_root *root, const char *relative, file_entry *entry);
error *files_kind(const file_root *root, const char *relative, file_kind *kind);

// False when no entry has this name. Dangling links and files that may not be looked at exist.
bool files_exists(const file_root *root, const char *relative);

// The reason why `name`, an entry of `root` itself, is a link that cannot be followed; else NULL.
error *files_check_link(const file_root *root, const char *name);

// Opens a regular file or a directory below `root`. A regular file is opened by the descriptor that
// was checked, not by its name. Errors: NOT_FOUND when absent, INVALID_ARG when the policy forbids
// the path or it is of the wrong kind, UNAVAILABLE when memory or descriptors are short, INTERNAL
// for the rest. The caller closes *descriptor.
error *files_open(const file_root *root, const char *relative, file_kind kind, int *descriptor);

// As files_open for a directory; paths below it keep the policy. The caller closes *dir, also after
// an error.
error *files_open_dir(const file_root *root, const char *relative, file_root *dir);
// The same, but an absent directory (see files_kind) is no error: *dir is closed then.
error *files_enter(const file_root *root, const char *relative, file_root *dir);

// Cuts the path's last part off: "a/b/" is "a" and "b", "b" is "." and "b". A last part of "." or
// ".." is resolved first. The caller frees both, also after an error.
error *files_split(const char *path, char **above, char **last);

// `path` made absolute: a relative one is below the working directory. The caller frees it; NULL
// with errno.
char *files_absolute(const char *path);

// The path of the open file, links resolved. The caller frees it.
error *files_path_of(int descriptor, char **path);

// openat(2) with the rule `links`, close-on-exec; the path stays below `dir` unless the rule is
// FILE_LINKS_ANYWHERE. -1 with errno.
int files_open_at(int dir, const char *path, int flags, mode_t mode, file_links links);

// 0 if the kernel's openat2 opens paths; else its errno, and path_walk.h opens them. Asked once, at
// the first path.
int files_walk_reason(void);

// Appends the content of a regular file; INVALID_ARG for more than `limit` bytes.
error *files_read(const file_root *root, const char *relative, size_t limit, buffer *content);

// The same for the file at `path`, which is the operator's and may be anything readable. Errors
// name the path.
error *files_read_path(const char *path, size_t limit, buffer *content);

// Reads until `*size` bytes are read or the file ends; *size becomes the number read. False with
// errno on failure.
bool files_fill(int descriptor, void *data, size_t *size);

// Writes all of `data`. False with errno on failure; a part may be written.
bool files_write(int descriptor, const void *data, size_t size);
// The same; returns the number of bytes written, fewer than `size` after an error.
size_t files_write_most(int descriptor, const void *data, size_t size);

// Names of the entries in `relative` ("." for the root itself), sorted, without "." and "..".
// Hidden ones included.
error *files_list(const file_root *root, const char *relative, string_list *names);

#endif
