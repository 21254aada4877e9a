// SPDX-License-Identifier: Apache-2.0
// Opens shared objects that are no files of a library path: those in memory, and empty ones that
// stand in for libraries which are named but never called. Load threads.
#ifndef NEREID_TORCH_OPEN_H
#define NEREID_TORCH_OPEN_H

#include <stdbool.h>
#include <stddef.h>

// dlopen of the file that is open as `descriptor`, which may be closed afterwards. NULL: dlerror.
void *torch_open_descriptor(int descriptor, int flags);

// An empty file in memory, or -1.
int torch_memory_file(const char *name);

// Loads, for good, a library that has this soname and nothing else.
bool torch_open_stub(const char *soname);

// The library that dlerror's `text` says is missing, if it is one of CUDA's, which PyTorch's wheels
// name for their profiler alone: its soname in `soname`.
bool torch_missing_library(const char *text, char *soname, size_t size);

// What C++ compilers mark as unique in the process is never unloaded by the loader. Takes the mark
// from the symbols of the shared object at `data`, which may be anything. False: it is no 64-bit
// shared object for this machine, or cut off.
bool torch_make_unloadable(void *data, size_t size);

#endif
