// Files below a folder that the operator named. The kernel, not string tests, keeps every path
// inside (openat2 with RESOLVE_BENEATH and RESOLVE_NO_MAGICLINKS): no "..", absolute path or link
// leads out. All descriptors are close-on-exec.
#ifndef NEREID_BASE_FILES_H
#define NEREID_BASE_FILES_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/string_list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Opens the folder at `path`, which is the operator's own and may be anything. The caller closes
// *folder.
error *files_open_root(const char *path, int *folder);

// What a look-up found; an expected outcome, not an error.
typedef enum file_kind {
  FILE_ABSENT,
  FILE_REGULAR,
  FILE_FOLDER,
  FILE_OTHER, // a FIFO, socket or device: never opened
} file_kind;

// What is at `relative` below `folder`. Paths that lead out, loop or may not be searched give
// FILE_ABSENT. Errors: UNAVAILABLE when memory or descriptors are short, INTERNAL when the disk
// fails: then nobody knows what is there.
error *files_kind(int folder, const char *relative, file_kind *kind);

// The same, and its modification time, nanoseconds since 1970.
error *files_look(int folder, const char *relative, file_kind *kind, uint64_t *change_ns);

// False when there is surely nothing of this name: a link to nowhere exists, and so does what may
// not be looked at.
bool files_exists(int folder, const char *relative);

// Opens a regular file or a folder below `folder`. Errors: NOT_FOUND when absent, INVALID_ARG when
// the path leads out of `folder` or is of the wrong kind, UNAVAILABLE when memory or descriptors
// are short, INTERNAL for the rest. The caller closes *descriptor.
error *files_open(int folder, const char *relative, file_kind kind, int *descriptor);

// Appends a regular file's content to `content`; more than `limit` bytes is INVALID_ARG.
error *files_read(int folder, const char *relative, size_t limit, buffer *content);

// The same for the file at `path`, which is the operator's own and may be anything that can be
// read. Errors name the path.
error *files_read_path(const char *path, size_t limit, buffer *content);

// Writes all of `data` to a descriptor. False with errno when it cannot: a part may be written
// then.
bool files_write(int descriptor, const void *data, size_t size);
// The same; returns how many bytes were written, all but after an error.
size_t files_write_most(int descriptor, const void *data, size_t size);

// Names of the entries in `folder` itself ("." for `relative`), sorted, without "." and "..".
// Hidden ones included.
error *files_list(int folder, const char *relative, string_list *names);

// The same with the newest time of the entry and, for a folder, of all below it. What is absent
// does not count.
error *files_newest_change(int folder, const char *relative, file_kind *kind, uint64_t *newest_ns);

#endif
