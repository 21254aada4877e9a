// SPDX-License-Identifier: Apache-2.0
// Where a framework's library may be: settings, the backend's own directory, the loader's path, and
// the packages of Python environments and interpreters. All of it is read off the file system:
// nothing is started. One thread, while a backend starts.
#ifndef NEREID_FRAMEWORK_SEARCH_H
#define NEREID_FRAMEWORK_SEARCH_H

#include "framework_system.h"

#include <stdbool.h>

#define FRAMEWORK_LOADER_NAMES 2

// What a backend runs on.
typedef struct framework {
  const char *name;    // "ONNX Runtime"
  const char *backend; // "onnxruntime", as in --backend-config
  const char *package; // what pip installs
  const char *dir;     // below site-packages: where the package has its library
  const char *library; // how the library's file name begins; the newest of several is taken
  const char *loader_names[FRAMEWORK_LOADER_NAMES]; // what the loader is asked for; NULL: nothing
  bool needs_avx;
} framework;

// Opens the library at `path`, or what the loader finds by a name without a slash. False when it
// does not serve: *why_not says why, for free().
typedef bool framework_open(void *context, const char *path, char **why_not);

typedef struct framework_search {
  const framework *framework;
  const framework_system *system;
  const char *library;            // settings, NULL where there are none: this library or none
  const char *python_environment; // a directory
  const char *python_executable;  // a path, or a name for PATH
  const char *own_dir;            // the backend's
  framework_open *open;
  void *context;
} framework_search;

// Goes from place to place until a library opens. *looked: where was looked and what was not right
// there, one clause each, for free(); NULL when memory is short.
bool framework_find(const framework_search *search, char **looked);

// What the error of a model without the framework says, for free(): how it is installed and named,
// and what `looked` says. NULL when memory is short.
char *framework_not_found(const framework *f, const char *looked);

#endif
