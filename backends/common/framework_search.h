// SPDX-License-Identifier: Apache-2.0
// Finds a framework's library: in settings, the backend's own directory, the loader's path, and the
// packages of Python environments and interpreters. It only reads files and starts no program. One
// thread, while a backend starts.
#ifndef NEREID_FRAMEWORK_SEARCH_H
#define NEREID_FRAMEWORK_SEARCH_H

#include "framework_system.h"

#include <stdbool.h>

#define FRAMEWORK_LOADER_NAMES 2

// The framework that a backend needs.
typedef struct framework {
  const char *name;    // "ONNX Runtime"
  const char *backend; // "onnxruntime", as in --backend-config
  const char *package; // its name for pip
  const char *dir;     // below site-packages: the directory of its library
  const char *library; // beginning of the library's file name; the newest match is taken
  const char *loader_names[FRAMEWORK_LOADER_NAMES]; // names to ask the loader for; NULL: none
  bool needs_avx;
} framework;

// Opens the library at `path`; a name without a slash is left to the loader. False when it cannot
// be used: *why_not says why, for free().
typedef bool framework_open(void *context, const char *path, char **why_not);

typedef struct framework_search {
  const framework *framework;
  const framework_system *system;
  const char *library; // setting; only this library is tried. NULL: not set, as the next two
  const char *python_environment; // a directory
  const char *python_executable;  // a path, or a name for PATH
  const char *own_dir;            // the backend's
  framework_open *open;
  void *context;
} framework_search;

// Tries place after place until a library opens. *looked: the places tried and what was wrong
// there, one clause each, for free(); NULL when memory is short.
bool framework_find(const framework_search *search, char **looked);

// The error text for a model whose framework is missing, for free(): how to install or name it, and
// `looked`. NULL when memory is short.
char *framework_not_found(const framework *f, const char *looked);

#endif
