// SPDX-License-Identifier: Apache-2.0
// A package of a compiled model (.pt2): a zip archive whose folder data/aotinductor/<model>/ has a
// shared object, a description of its target, and perhaps its weights. Load threads.
#ifndef NEREID_TORCH_PACKAGE_H
#define NEREID_TORCH_PACKAGE_H

#include "triton/core/tritonserver.h"

#include <jansson.h>
#include <stdbool.h>

typedef struct torch_package {
  int library;      // the shared object in memory
  int weights;      // -1: they are in the library
  json_t *metadata; // the target, AOTI_...; empty when unknown
  bool needs_more;  // it calls operators without a C interface
} torch_package;

#define TORCH_PACKAGE_EMPTY ((torch_package){.library = -1, .weights = -1})

// Reads the open file; `path` is for errors. Of several models it takes "model". Call
// torch_package_fini on `package` even after an error.
TRITONSERVER_Error *torch_package_read(int file, const char *path, torch_package *package);
void torch_package_fini(torch_package *package);

// A machine's properties.
typedef struct torch_machine {
  const char *name; // "x86_64"
  bool (*has)(const char *instruction_set);
} torch_machine;

extern const torch_machine torch_own_machine;

// INVALID_ARG says why the package does not run on the machine; NULL when it does.
TRITONSERVER_Error *torch_package_check(const torch_package *package, const torch_machine *machine,
                                        const char *path);

// Changes the shared object in memory so that it can be unloaded, and checks its inputs if `check`.
// *checks: it has such checks.
TRITONSERVER_Error *torch_package_prepare(const torch_package *package, const char *path,
                                          bool check, bool *checks);

#endif
