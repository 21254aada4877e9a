// SPDX-License-Identifier: Apache-2.0
// Lets a model write to large input tensors without a copy and without changing shared memory: the
// host's region is mapped a second time, privately. Written pages become this process's own; the
// original data stays unchanged. With the GIL.
#ifndef NEREID_WRITABLE_H
#define NEREID_WRITABLE_H

#include <stddef.h>

// Maps the region of the channel behind `descriptor`. If that fails nothing is writable.
void writable_attach(int descriptor);

// The writable address of the tensor at `address` in the host's region, for one user at a time.
// NULL: it is small, the model has written to a tensor lately, or writing is not possible: copy it.
void *writable_take(const void *address, size_t size);

// Discards what was written: other tensors will use the memory.
void writable_give_back(void *taken, size_t size);

#endif
