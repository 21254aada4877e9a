// SPDX-License-Identifier: Apache-2.0
// Whether a file or a directory with all that is in it has changed, seen through links. On the
// threads that load models; keeps no state.
#ifndef NEREID_BASE_FILE_STAMP_H
#define NEREID_BASE_FILE_STAMP_H

#include "base/files.h"

typedef struct file_stamp {
  uint64_t entries; // a sum over names, sizes and times of change; 0: nothing was looked at
  uint64_t bytes;   // of the regular files; says nothing of changes
  uint64_t targets; // which file or directory it is, and which ones the links in it lead to
} file_stamp;

// The stamp of the entry `name` of `root` and, for a directory, of all below it. What is absent
// does not count. Links that are not followed are logged as parts of `dir`, unless that is NULL;
// the reason of the first is kept in *refused, unless there is one. It is the caller's, also after
// an error.
error *file_stamp_take(const file_root *root, const char *name, const char *dir, file_kind *kind,
                       file_stamp *stamp, error **refused);

// Makes `sum` the stamp of what it was of and of what `other` is of.
void file_stamp_add(file_stamp *sum, file_stamp other);
// The same with an entry alone, under its name.
void file_stamp_add_entry(file_stamp *sum, const char *name, const file_entry *entry);

// Whether anything came, went or changed, its time forwards or back, or a link leads elsewhere.
bool file_stamp_differs(file_stamp now, file_stamp before);

#endif
