// SPDX-License-Identifier: Apache-2.0
// Memory that is handed out without a call to the driver: one pool of pinned host memory, one for
// each device. Made when first needed (a load, a region), never by a request; a request that finds
// no room gets none, and another place. Any thread; a lock a pool.
#ifndef NEREID_GPU_POOL_H
#define NEREID_GPU_POOL_H

#include "base/error.h"
#include "gpu/copy.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gpu_pool gpu_pool;

// A pool at `place`, of `bytes` in one piece (of a device: one allocation that another process can
// be let to open). Holds the device's context; of pinned memory, `place.device`'s, since a context
// is needed to make it. 0 bytes: a pool that has nothing. Errors: what the driver says.
error *gpu_pool_new(gpu_place place, size_t bytes, gpu_pool **pool);
void gpu_pool_free(gpu_pool *pool); // nothing is taken any more; NULL is allowed

// *memory NULL: there is no room.
error *gpu_pool_take(gpu_pool *pool, size_t bytes, void **memory);
void gpu_pool_give_back(gpu_pool *pool, void *memory);
bool gpu_pool_owns(const gpu_pool *pool, const void *memory);

// Grows by a further piece of at least `bytes`. The server's pools never do; what a backend keeps
// because they had no room does (backends/common/backend_device.c).
error *gpu_pool_grow(gpu_pool *pool, size_t bytes);

typedef struct gpu_pool_counts {
  uint64_t total_bytes, used_bytes, largest_free_bytes, takes, misses;
} gpu_pool_counts;
void gpu_pool_count(gpu_pool *pool, gpu_pool_counts *counts);

#endif
