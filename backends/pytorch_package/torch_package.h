// SPDX-License-Identifier: Apache-2.0
// A package of a compiled model (.pt2): a zip archive whose folder data/aotinductor/<model>/ has a
// shared object, what it was made for, and perhaps its weights. Load threads.
#ifndef NEREID_TORCH_PACKAGE_H
#define NEREID_TORCH_PACKAGE_H

#include "triton/core/tritonserver.h"

#include <jansson.h>
#include <stdbool.h>

typedef struct torch_package {
  int library;      // the shared object in memory
  int weights;      // -1: they are in it
  json_t *metadata; // what it was made for, AOTI_...; empty when it does not say
  bool needs_more;  // operators without a C interface
} torch_package;

#define TORCH_PACKAGE_EMPTY ((torch_package){.library = -1, .weights = -1})

// Reads the open file; `path` is for errors. Of several models, "model" is taken. The caller ends
// `package` also after an error.
TRITONSERVER_Error *torch_package_read(int file, const char *path, torch_package *package);
void torch_package_fini(torch_package *package);

// What this machine is.
typedef struct torch_machine {
  const char *name; // "x86_64"
  bool (*has)(const char *instruction_set);
} torch_machine;

extern const torch_machine torch_own_machine;

// Why the package does not run on the machine, INVALID_ARG; NULL when it does.
TRITONSERVER_Error *torch_package_check(const torch_package *package, const torch_machine *machine,
                                        const char *path);

// Makes the shared object in memory fit to be opened: it can be unloaded again, and checks its
// inputs or not. *checks: it can.
TRITONSERVER_Error *torch_package_prepare(const torch_package *package, const char *path,
                                          bool check, bool *checks);

#endif
