// SPDX-License-Identifier: Apache-2.0
// Large arrays in this worker's region: NumPy's data allocator (NEP 49, NumPy 1.22 and later). An
// output computed there is named in the answer instead of copied.
#ifndef NEREID_NUMPY_MEMORY_H
#define NEREID_NUMPY_MEMORY_H

#include "native.h"

extern PyMethodDef numpy_memory_functions[];

#endif
