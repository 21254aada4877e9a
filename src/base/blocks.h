// SPDX-License-Identifier: Apache-2.0
// Memory for tensors and bodies: small blocks from malloc, large ones straight from the kernel.
// Whoever sees to blocks_trim can have large blocks kept for a moment when they are freed, so that
// the next request of that size finds its pages ready. Thread-safe.
#ifndef NEREID_BASE_BLOCKS_H
#define NEREID_BASE_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BLOCK_ALIGNMENT 64

// From this size on blocks come from the kernel. Sanitizers watch the bounds of malloc's blocks
// only.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BLOCK_LARGE_BYTES SIZE_MAX
#else
#define BLOCK_LARGE_BYTES ((size_t)256 << 10)
#endif

// `size` bytes, aligned to BLOCK_ALIGNMENT, not initialised: what a request of another client left
// may be in them. NULL when memory is short.
void *block_allocate(size_t size);

// The same, all zeroes.
void *block_allocate_zeroed(size_t size);

// A block of `size` bytes that begins with those of `memory`, which it replaces; `old_size` is what
// that was allocated with. NULL when memory is short: then `memory` stays.
void *block_grow(void *memory, size_t old_size, size_t size);

// `size` is what the block was allocated with. NULL is allowed.
void block_free(void *memory, size_t size);

// Gives the pages of `size` bytes at `begin` back to the kernel, where the block is too large to be
// kept: what they hold is lost. `block_size` is what the block was allocated with.
void block_discard(void *memory, size_t block_size, char *begin, size_t size);

// From now on freed blocks are kept, while they and those in use are at most `limit` bytes. The
// daemon and the library have a copy of this layer each, and so their own blocks.
void blocks_keep(size_t limit);

// To be called about once a second: gives back what has been kept since the last call. Returns
// whether anything is still kept.
bool blocks_trim(void);

#endif
