// SPDX-License-Identifier: Apache-2.0
// Runs a C++ compiler. Load threads.
#ifndef NEREID_TORCH_COMPILER_H
#define NEREID_TORCH_COMPILER_H

#include <limits.h>
#include <stdbool.h>

typedef struct torch_compilation {
  const char *compiler; // a path or a name for PATH; NULL: c++, g++ or clang++
  const char *library;  // path of libtorch_cpu.so, whose headers are beside it
  int cxx11;            // of std::string
  const char *source;
  const char *work_dir; // used by this compilation only
} torch_compilation;

// Makes a shared object, `made`. False: *why_not is the reason, for free(), on one line.
bool torch_compile(const torch_compilation *wanted, char made[PATH_MAX], char **why_not);

#endif
