// SPDX-License-Identifier: Apache-2.0
// Alignment of blocks and tensors.
#ifndef NEREID_CHANNEL_ALIGN_H
#define NEREID_CHANNEL_ALIGN_H

#include <stddef.h>

#define CHANNEL_ALIGNMENT 64         // of every block
#define CHANNEL_LARGE     (64 << 10) // a block of this size or more begins on a page

// `size` rounded up to CHANNEL_ALIGNMENT, for placing things one after another in a block. The size
// is at most SIZE_MAX - CHANNEL_ALIGNMENT.
static inline size_t channel_aligned(size_t size)
{
  return (size + CHANNEL_ALIGNMENT - 1) & ~(size_t)(CHANNEL_ALIGNMENT - 1);
}

#endif
