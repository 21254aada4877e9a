// SPDX-License-Identifier: Apache-2.0
// Pools of pinned and of device memory: pieces from the driver, divided by `ranges`. The lock is
// held for the tables only, never during a call of the driver. Any thread.
#include "gpu/pool.h"

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/list.h"
#include "base/thread.h"
#include "gpu/context.h"
#include "gpu/health.h"
#include "gpu/ranges.h"

#include <stdlib.h>

// One allocation of the driver; holds the device's context.
typedef struct piece {
  list_node node; // in the pool's `pieces`
  void *memory;
  size_t bytes;
} piece;

struct gpu_pool {
  gpu_place place; // does not change
  pthread_mutex_t lock;
  ranges *ranges; // guarded by `lock`, as the rest
  list pieces;
  uint64_t takes, misses;
};

static CUresult allocate(gpu_place place, piece *p)
{
  const gpu_driver *driver = gpu_driver_opened();
  if (place.kind == GPU_MEMORY_PINNED)
    return driver->cuMemHostAlloc(&p->memory, p->bytes, CU_MEMHOSTALLOC_PORTABLE);
  CUdeviceptr memory = 0;
  CUresult code = driver->cuMemAlloc_v2(&memory, p->bytes);
  p->memory = (void *)(uintptr_t)memory;
  return code;
}

static CUresult release(gpu_place place, piece *p)
{
  const gpu_driver *driver = gpu_driver_opened();
  if (place.kind == GPU_MEMORY_PINNED)
    return driver->cuMemFreeHost(p->memory);
  return driver->cuMemFree_v2((CUdeviceptr)(uintptr_t)p->memory);
}

static error *fill_piece(gpu_place place, piece *p)
{
  CUcontext before;
  RETURN_IF_ERROR(gpu_context_visit(place.device, &before));
  CUresult code = allocate(place, p);
  gpu_context_leave(before);
  return gpu_error_on(place.device, code, "GPU %d: no %zu bytes of %s memory", place.device,
                      p->bytes, place.kind == GPU_MEMORY_PINNED ? "pinned" : "device");
}

static error *new_piece(gpu_place place, size_t bytes, piece **result)
{
  size_t padded;
  if (!checked_add_size(bytes, RANGES_ALIGNMENT - 1, &padded))
    return error_new(ERROR_INVALID_ARG, "a pool cannot have %zu bytes", bytes);
  RETURN_IF_ERROR(gpu_context_hold(place.device));
  piece *p = calloc(1, sizeof(*p));
  error *e = p == NULL ? error_no_memory() : NULL;
  if (e == NULL) {
    p->bytes = padded / RANGES_ALIGNMENT * RANGES_ALIGNMENT;
    e = fill_piece(place, p);
  }
  if (e != NULL) {
    free(p);
    gpu_context_release(place.device);
    return e;
  }
  *result = p;
  return NULL;
}

static void free_piece(gpu_place place, piece *p)
{
  CUcontext before;
  AUTO_ERROR error *e = gpu_context_visit(place.device, &before);
  if (e == NULL) {
    gpu_health_tell(place.device, release(place, p)); // a dead context has freed it already
    gpu_context_leave(before);
  }
  gpu_context_release(place.device);
  free(p);
}

error *gpu_pool_new(gpu_place place, size_t bytes, gpu_pool **pool)
{
  assert(place.kind == GPU_MEMORY_PINNED || place.kind == GPU_MEMORY_DEVICE);
  gpu_pool *p = calloc(1, sizeof(*p));
  if (p == NULL)
    return error_no_memory();
  p->place = place;
  list_init(&p->pieces);
  pthread_mutex_init(&p->lock, NULL);
  error *e = ranges_new(&p->ranges);
  if (e == NULL && bytes > 0)
    e = gpu_pool_grow(p, bytes);
  if (e != NULL) {
    gpu_pool_free(p);
    return e;
  }
  *pool = p;
  return NULL;
}

void gpu_pool_free(gpu_pool *pool)
{
  if (pool == NULL)
    return;
  assert(pool->ranges == NULL || ranges_used(pool->ranges) == 0);
  list_foreach_safe (piece, p, node, &pool->pieces)
    free_piece(pool->place, p);
  ranges_free(pool->ranges);
  pthread_mutex_destroy(&pool->lock);
  free(pool);
}

error *gpu_pool_grow(gpu_pool *pool, size_t bytes)
{
  piece *p = NULL;
  RETURN_IF_ERROR(new_piece(pool->place, bytes, &p));
  pthread_mutex_lock(&pool->lock);
  error *e = ranges_add(pool->ranges, (uintptr_t)p->memory, p->bytes);
  if (e == NULL)
    list_append(&pool->pieces, &p->node);
  pthread_mutex_unlock(&pool->lock);
  if (e != NULL)
    free_piece(pool->place, p);
  return e;
}

error *gpu_pool_take(gpu_pool *pool, size_t bytes, void **memory)
{
  uintptr_t address;
  LOCK_SCOPE(&pool->lock);
  error *e = ranges_take(pool->ranges, bytes, &address);
  if (e == NULL && address != 0)
    pool->takes++;
  else
    pool->misses++;
  *memory = (void *)address;
  return e;
}

void gpu_pool_give_back(gpu_pool *pool, void *memory)
{
  LOCK_SCOPE(&pool->lock);
  ranges_give_back(pool->ranges, (uintptr_t)memory);
}

bool gpu_pool_owns(const gpu_pool *pool, const void *memory)
{
  uintptr_t address = (uintptr_t)memory;
  LOCK_SCOPE((pthread_mutex_t *)&pool->lock);
  list_foreach (piece, p, node, &pool->pieces)
    if (address >= (uintptr_t)p->memory && address - (uintptr_t)p->memory < p->bytes)
      return true;
  return false;
}

void gpu_pool_count(gpu_pool *pool, gpu_pool_counts *counts)
{
  LOCK_SCOPE(&pool->lock);
  *counts = (gpu_pool_counts){
      .total_bytes = ranges_total(pool->ranges),
      .used_bytes = ranges_used(pool->ranges),
      .largest_free_bytes = ranges_largest_free(pool->ranges),
      .takes = pool->takes,
      .misses = pool->misses,
  };
}
