// SPDX-License-Identifier: Apache-2.0
// A bump allocator with one owner and one lifetime: everything in it is released at once.
// Cost: an allocation is an addition and a comparison; a new block is one malloc. Not thread-safe.
#ifndef NEREID_BASE_ARENA_H
#define NEREID_BASE_ARENA_H

#include "base/slice.h"

#include <stddef.h>

typedef struct arena_block arena_block;

typedef struct arena {
  char *next;          // where the next allocation goes
  char *end;           // end of the current block
  arena_block *blocks; // newest first; does not hold the initial memory
} arena;

// Starts an arena on memory that the caller owns and keeps for the arena's life (typically the tail
// of the object that the arena serves); `memory` may be NULL with `size` 0.
void arena_init(arena *a, void *memory, size_t size);
void arena_fini(arena *a);

// `size` bytes aligned to 16, not initialised; NULL when memory is short. A size of 0 gives a valid
// pointer.
void *arena_allocate(arena *a, size_t size) __attribute__((malloc, alloc_size(2)));

// The same for a tensor's data, aligned to BLOCK_ALIGNMENT (base/blocks.h).
void *arena_allocate_tensor(arena *a, size_t size);

// `count` elements of `size` bytes, zeroed; NULL when memory is short or the product overflows.
void *arena_allocate_array(arena *a, size_t count, size_t size)
    __attribute__((malloc, alloc_size(2, 3)));

// Makes room for one more element behind the `count` of a list that only grows by one. Returns the
// list, which moves when `count` is a power of two, or NULL when memory is short.
void *arena_grow_array(arena *a, void *items, size_t count, size_t item_size);

// A NUL-terminated copy; NULL when memory is short.
char *arena_copy_text(arena *a, slice text);

#endif
