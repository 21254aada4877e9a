// SPDX-License-Identifier: Apache-2.0
// Memory that is handed out without a call to the driver: one pool of pinned host memory, and one
// for each device. A pool is made when first needed (a load, a region), never by a request. A
// request that finds no room gets none and uses other memory. Any thread; one lock per pool.
#ifndef NEREID_GPU_POOL_H
#define NEREID_GPU_POOL_H

#include "base/error.h"
#include "gpu/copy.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gpu_pool gpu_pool;

// A pool at `place` of `bytes` in one piece. On a device it is one allocation, which another
// process may open. Holds the device's context; pinned memory needs a context too, that of
// `place.device`. 0 bytes: an empty pool. Errors: the driver's.
error *gpu_pool_new(gpu_place place, size_t bytes, gpu_pool **pool);
void gpu_pool_free(gpu_pool *pool); // all memory must be given back; NULL is allowed

// *memory NULL: no room.
error *gpu_pool_take(gpu_pool *pool, size_t bytes, void **memory);
void gpu_pool_give_back(gpu_pool *pool, void *memory);
bool gpu_pool_owns(const gpu_pool *pool, const void *memory);

// Adds a piece of at least `bytes`. The server's pools never grow; a backend's spare pool does
// (backends/common/backend_device.c).
error *gpu_pool_grow(gpu_pool *pool, size_t bytes);

typedef struct gpu_pool_counts {
  uint64_t total_bytes, used_bytes, largest_free_bytes, takes, misses;
} gpu_pool_counts;
void gpu_pool_count(gpu_pool *pool, gpu_pool_counts *counts);

#endif
