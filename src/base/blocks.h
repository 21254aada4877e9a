// SPDX-License-Identifier: Apache-2.0
// Memory for tensors and bodies: small blocks from malloc, large ones straight from the kernel.
// After blocks_keep, freed large blocks are kept for a moment, so that the next request of that
// size finds its pages ready; call blocks_trim regularly then. Thread-safe.
#ifndef NEREID_BASE_BLOCKS_H
#define NEREID_BASE_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BLOCK_ALIGNMENT 64

// Blocks of this size and more come from the kernel. Sanitizers check the bounds of malloc's blocks
// only.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BLOCK_LARGE_BYTES SIZE_MAX
#else
#define BLOCK_LARGE_BYTES ((size_t)256 << 10)
#endif

// `size` bytes, aligned to BLOCK_ALIGNMENT, not initialised: they may hold data of another client's
// request. NULL when memory is short.
void *block_allocate(size_t size);

// As block_allocate, but zeroed.
void *block_allocate_zeroed(size_t size);

// Replaces `memory`, of `old_size` bytes, by a block of `size` bytes with the same beginning. NULL
// when memory is short: then `memory` stays.
void *block_grow(void *memory, size_t old_size, size_t size);

// `size` is the size given at allocation. NULL is allowed.
void block_free(void *memory, size_t size);

// Gives the pages of `size` bytes at `begin` back to the kernel and loses their content. Does
// nothing in a block small enough to be kept. `block_size` is the size given at allocation.
void block_discard(void *memory, size_t block_size, char *begin, size_t size);

// From now on freed blocks are kept as long as kept and used blocks together are at most `limit`
// bytes. The daemon and the library each have their own copy of this layer, and their own blocks.
void blocks_keep(size_t limit);

// Gives back the blocks kept since before the last call; call it about once a second. Returns
// whether any are still kept.
bool blocks_trim(void);

#endif
