// SPDX-License-Identifier: Apache-2.0
// Counts copies, for this library or, in the server, for the whole process. Any thread.
#include "gpu/copy.h"

#include <stdatomic.h>

static _Atomic uint64_t copies[GPU_COPY_DIRECTIONS], copied_bytes[GPU_COPY_DIRECTIONS];

void gpu_copy_add(gpu_direction direction, uint64_t bytes)
{
  atomic_fetch_add_explicit(&copies[direction], 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&copied_bytes[direction], bytes, memory_order_relaxed);
}

void gpu_copy_count(gpu_copy_counts *counts)
{
  for (int i = 0; i < GPU_COPY_DIRECTIONS; i++) {
    counts->copies[i] = atomic_load_explicit(&copies[i], memory_order_relaxed);
    counts->bytes[i] = atomic_load_explicit(&copied_bytes[i], memory_order_relaxed);
  }
}
