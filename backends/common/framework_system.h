// SPDX-License-Identifier: Apache-2.0
// The machine on which a framework is searched. Load threads.
#ifndef NEREID_FRAMEWORK_SYSTEM_H
#define NEREID_FRAMEWORK_SYSTEM_H

#include <limits.h>
#include <stdbool.h>

// This process and machine, or a test's replacement.
typedef struct framework_system {
  const char *root; // "", or a directory that stands for "/"
  const char *dir;  // the process's working directory
  const char *(*variable)(const char *name);
  bool has_avx;
  bool strict; // what other users own is not used
} framework_system;

void framework_system_init(framework_system *system);

// Whether strangers cannot have written what is at `full`: only the owner may write it and the
// directories above it; with `strict` root or this user owns them all. Else *why may be a text with
// the place, for free().
bool framework_is_safe(const char *full, bool strict, char **why);

// False when the path is too long.
bool framework_path(char path[PATH_MAX], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Whether `path` below the system's root is a directory.
bool framework_is_dir(const framework_system *system, const char *path);

#endif
