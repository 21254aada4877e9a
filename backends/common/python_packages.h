// SPDX-License-Identifier: Apache-2.0
// Finds the directories where a Python looks for packages, by reading the file system: links,
// pyvenv.cfg, the layouts of CPython, Debian, conda and pyenv. .pth files are not read. For
// framework_search.c.
#ifndef NEREID_PYTHON_PACKAGES_H
#define NEREID_PYTHON_PACKAGES_H

#include "framework_system.h"

#include <stddef.h>

// Called with one existing directory; true ends the walk.
typedef bool package_visit(void *context, const char *dir);

typedef struct package_walk {
  const framework_system *system;
  package_visit *visit;
  void *context;
} package_walk;

// The directories of the environment or prefix at `dir`; the newest of several Pythons comes first.
bool python_packages_of_environment(const package_walk *walk, const char *dir);

// The directories of an interpreter, given by its absolute path. When the walk ends without a call
// of `visit`, *why_not may say why: a text that is not to be freed.
bool python_packages_of_interpreter(const package_walk *walk, const char *path,
                                    const char **why_not);

// The `nth` newest name in `dir` that begins with `prefix`, by version (3.10 before 3.9; 0 is the
// newest), for free(); NULL when there is none.
char *python_packages_nth_newest(const framework_system *system, const char *dir,
                                 const char *prefix, size_t nth);

#endif
