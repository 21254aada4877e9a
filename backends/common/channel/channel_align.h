// SPDX-License-Identifier: Apache-2.0
// Where blocks and tensors may lie.
#ifndef NEREID_CHANNEL_ALIGN_H
#define NEREID_CHANNEL_ALIGN_H

#include <stddef.h>

#define CHANNEL_ALIGNMENT 64         // of every block
#define CHANNEL_LARGE     (64 << 10) // from here on a block begins a page

// `size` rounded up to CHANNEL_ALIGNMENT: where things lie one after the other in a block. The size
// is at most SIZE_MAX - CHANNEL_ALIGNMENT.
static inline size_t channel_aligned(size_t size)
{
  return (size + CHANNEL_ALIGNMENT - 1) & ~(size_t)(CHANNEL_ALIGNMENT - 1);
}

#endif
