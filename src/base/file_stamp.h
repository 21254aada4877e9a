// SPDX-License-Identifier: Apache-2.0
// Tells whether a file or a directory tree has changed; follows links. Called on threads that load
// models; keeps no state.
#ifndef NEREID_BASE_FILE_STAMP_H
#define NEREID_BASE_FILE_STAMP_H

#include "base/files.h"

typedef struct file_stamp {
  uint64_t entries; // a sum over names, sizes and times of change; 0: not taken
  uint64_t bytes;   // of the regular files; says nothing of changes
  uint64_t targets; // identities of the file or directory and of the targets of its links
} file_stamp;

// The stamp of the entry `name` of `root` and, for a directory, of all below it. Absent files do
// not count. Links that are not followed are logged as parts of `dir`, unless that is NULL.
// *refused receives the reason of the first, unless it holds one already; it is the caller's, also
// after an error.
error *file_stamp_take(const file_root *root, const char *name, const char *dir, file_kind *kind,
                       file_stamp *stamp, error **refused);

// Adds `other` to `sum`, which is then the stamp of both.
void file_stamp_add(file_stamp *sum, file_stamp other);
// The same for one entry under its name.
void file_stamp_add_entry(file_stamp *sum, const char *name, const file_entry *entry);

// Whether an entry was added, removed or changed (its time may go forwards or back), or a link
// leads elsewhere.
bool file_stamp_differs(file_stamp now, file_stamp before);

#endif
