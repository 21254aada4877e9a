// SPDX-License-Identifier: Apache-2.0
// Opens shared objects from memory, and empty ones in place of libraries that are required but
// never called. Load threads.
#ifndef NEREID_TORCH_OPEN_H
#define NEREID_TORCH_OPEN_H

#include <stdbool.h>
#include <stddef.h>

// dlopen of the file behind `descriptor`, which may be closed afterwards. NULL: dlerror has the
// text.
void *torch_open_descriptor(int descriptor, int flags);

// An empty file in memory, or -1.
int torch_memory_file(const char *name);

// Loads, for good, a library that has only this soname.
bool torch_open_stub(const char *soname);

// The library that dlerror's `text` says is missing, if it is CUDA's, which PyTorch's wheels need
// only for their profiler: its soname in `soname`.
bool torch_missing_library(const char *text, char *soname, size_t size);

// Clears the marks of unique symbols in the shared object at `data`, because the loader never
// unloads a library with such symbols. `data` may be anything. False: it is not a 64-bit shared
// object for this machine, or cut off.
bool torch_make_unloadable(void *data, size_t size);

#endif
