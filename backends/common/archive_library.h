// SPDX-License-Identifier: Apache-2.0
// libarchive's functions. The first archive opens the library, which then stays open. A linked
// libarchive would bring libxml2 and 31 MB of ICU into each server with a Python or PyTorch model,
// and without it none of these models would load
// (docs/decisions/2026-11-27-libarchive-is-opened.md). Any thread.
#ifndef NEREID_ARCHIVE_LIBRARY_H
#define NEREID_ARCHIVE_LIBRARY_H

#include "triton/core/tritonserver.h"

#include <archive.h>
#include <archive_entry.h>

// The functions in use, by their names without "archive_".
#define ARCHIVE_FUNCTIONS(X)                                                                       \
  X(error_string)                                                                                  \
  X(read_new)                                                                                      \
  X(read_free)                                                                                     \
  X(read_open_fd)                                                                                  \
  X(read_next_header)                                                                              \
  X(read_data)                                                                                     \
  X(read_support_filter_gzip)                                                                      \
  X(read_support_filter_bzip2)                                                                     \
  X(read_support_filter_xz)                                                                        \
  X(read_support_filter_zstd)                                                                      \
  X(read_support_format_tar)                                                                       \
  X(read_support_format_zip)                                                                       \
  X(entry_pathname)                                                                                \
  X(entry_filetype)                                                                                \
  X(entry_mode)                                                                                    \
  X(entry_mtime)                                                                                   \
  X(entry_mtime_nsec)                                                                              \
  X(entry_mtime_is_set)                                                                            \
  X(entry_hardlink)                                                                                \
  X(entry_symlink)

typedef struct archive_library {
#define ARCHIVE_MEMBER(name) __typeof__(&archive_##name) name;
  ARCHIVE_FUNCTIONS(ARCHIVE_MEMBER)
#undef ARCHIVE_MEMBER
} archive_library;

// Fails if the library is missing or does not open. `path` is the archive's, for the error.
// `*library` lives as long as the process.
TRITONSERVER_Error *archive_library_open(const char *path, const archive_library **library);

#endif
