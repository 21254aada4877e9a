// SPDX-License-Identifier: Apache-2.0
// From a member to the struct around it: for list.h, mpsc.h, heap.h and callbacks that get a
// member.
#ifndef NEREID_BASE_CONTAINER_OF_H
#define NEREID_BASE_CONTAINER_OF_H

#include <stddef.h>

// The `type` around the `member` at `pointer`; NULL for NULL. The compiler warns when the pointer
// does not have the member's type.
#define container_of(pointer, type, member)                                                        \
  ((type *)container_at(1 ? (pointer) : &((type *)0)->member, offsetof(type, member)))

static inline void *container_at(const void *member, size_t offset)
{
  return member != NULL ? (char *)member - offset : NULL;
}

#endif
