// SPDX-License-Identifier: Apache-2.0
// The machine that a framework is looked for on. Load threads.
#ifndef NEREID_FRAMEWORK_SYSTEM_H
#define NEREID_FRAMEWORK_SYSTEM_H

#include <limits.h>
#include <stdbool.h>

// The process and the machine, or what a test makes of them.
typedef struct framework_system {
  const char *root; // "", or the directory that stands for "/"
  const char *dir;  // where the process is
  const char *(*variable)(const char *name);
  bool has_avx;
  bool strict; // what other users own is left alone
} framework_system;

void framework_system_init(framework_system *system);

// Whether strangers cannot have put there what is at `full`: nobody but its owner may write it and
// the directories above it; where it is `strict`, root or this user owns them all. Else *why may be
// a text with the place, for free().
bool framework_is_safe(const char *full, bool strict, char **why);

// False when the path is too long to be one.
bool framework_path(char path[PATH_MAX], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Whether there is a directory at `path` below the system's root.
bool framework_is_dir(const framework_system *system, const char *path);

#endif
