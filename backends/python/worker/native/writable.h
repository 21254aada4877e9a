// SPDX-License-Identifier: Apache-2.0
// How a model may write to large tensors of the host's without a copy, and without writing to
// memory that is shared: the host's region is mapped once more, privately. Pages that the model
// writes to become this process's own; what was sent stays as it was. With the GIL.
#ifndef NEREID_WRITABLE_H
#define NEREID_WRITABLE_H

#include <stddef.h>

// Maps the region of the channel behind `descriptor`. Where that is not possible nothing is
// writable.
void writable_attach(int descriptor);

// Where the tensor at `address` in the host's region can be written to, for one user at a time.
// NULL: it is small, or the model has written to one lately, or this is not possible: copy it.
void *writable_take(const void *address, size_t size);

// Forgets what was written to it: others will come to lie there.
void writable_give_back(void *taken, size_t size);

#endif
