// Memory for tensors and bodies: small blocks from malloc, large ones straight from the kernel. A
// large block that is freed is kept for a moment, so that the next request of that size finds its
// pages ready; blocks_trim gives back what nobody took. Thread-safe.
#ifndef NEREID_BASE_BLOCKS_H
#define NEREID_BASE_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>

#define BLOCK_ALIGNMENT 64

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

// To be called about once a second: gives back what has been kept since the last call. Returns
// whether anything is still kept.
bool blocks_trim(void);

// Asks the kernel to back `size` fresh bytes with large pages where they are many: touching them
// for the first time then costs one fault for 512. A hint.
void block_prefer_large_pages(void *memory, size_t size);

#endif
