// SPDX-License-Identifier: Apache-2.0
// States are taken on instances' threads and given back on any.
#include "core/state_memory.h"

#include "base/cleanup.h"
#include "base/list.h"
#include "gpu/ipc.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

typedef struct region {
  list_node node; // while it is idle
  gpu_region *memory;
  int32_t device;
} region;

typedef struct state_pool {
  gpus *gpus;
  pthread_mutex_t lock; // guards what follows
  list idle;            // regions, the last one given back first
} state_pool;

// ---- the pools ----

static error *take(void *context, size_t size, TRITONSERVER_MemoryType *type, int64_t *id,
                   void **data)
{
  const state_pool *pool = context;
  gpu_place place = {(gpu_memory_kind)*type, (int)*id};
  *type = TRITONSERVER_MEMORY_CPU;
  if (pool->gpus == NULL || gpus_devices(pool->gpus)->count == 0)
    return NULL;
  RETURN_IF_ERROR(gpus_take_any(pool->gpus, &place, size, data));
  if (place.kind == GPU_MEMORY_HOST) { // the caller allocates heap memory itself
    gpus_give_back(pool->gpus, place, *data);
    return NULL;
  }
  *type = (TRITONSERVER_MemoryType)place.kind;
  *id = place.kind == GPU_MEMORY_DEVICE ? place.device : 0;
  return NULL;
}

static void give_back(void *context, void *data, TRITONSERVER_MemoryType type, int64_t id)
{
  const state_pool *pool = context;
  gpus_give_back(pool->gpus, (gpu_place){(gpu_memory_kind)type, (int)id}, data);
}

// ---- regions ----

static region *take_idle(state_pool *pool, int32_t device)
{
  LOCK_SCOPE(&pool->lock);
  list_foreach_safe (region, r, node, &pool->idle)
    if (r->device == device) {
      list_remove(&r->node);
      return r;
    }
  return NULL;
}

static void free_region(region *r)
{
  gpu_region_free(r->memory);
  free(r);
}

static error *new_region(const state_pool *pool, int32_t device, region **result)
{
  region *r = calloc(1, sizeof(*r));
  if (r == NULL)
    return error_no_memory();
  r->device = device;
  error *e = gpu_region_new(device, gpus_address_space(pool->gpus, device), &r->memory);
  if (e != NULL)
    free(r);
  else
    *result = r;
  return e;
}

static error *grow_region(void *context, void *region_pointer, size_t size)
{
  const state_pool *pool = context;
  region *r = region_pointer;
  uint64_t most = gpus_address_space(pool->gpus, r->device);
  size_t added;
  if (size > most)
    return error_new(ERROR_INVALID_ARG,
                     "Failed to resize the GrowableMemory. The requested size is larger than the "
                     "virtual page size. requested size: %zu, virtual_address_size:%" PRIu64,
                     size, most);
  return size <= gpu_region_bytes(r->memory) ? NULL
                                             : gpu_region_grow(r->memory, size, NULL, &added);
}

static error *begin_region(state_pool *pool, region *r, const void *initial, size_t size)
{
  RETURN_IF_ERROR(grow_region(pool, r, size));
  return gpu_copy_now(gpu_region_base(r->memory), (gpu_place){GPU_MEMORY_DEVICE, r->device},
                      initial, (gpu_place){GPU_MEMORY_HOST, 0}, size,
                      "failed to copy initial state to GPU");
}

static error *take_region(void *context, int32_t device, const void *initial, size_t size,
                          void **result, void **data)
{
  state_pool *pool = context;
  region *r = take_idle(pool, device);
  if (r == NULL)
    RETURN_IF_ERROR(new_region(pool, device, &r));
  error *e = begin_region(pool, r, initial, size);
  if (e != NULL) {
    free_region(r);
    return e;
  }
  *result = r;
  *data = gpu_region_base(r->memory);
  return NULL;
}

static void give_region_back(void *context, void *region_pointer)
{
  state_pool *pool = context;
  region *r = region_pointer;
  LOCK_SCOPE(&pool->lock);
  list_prepend(&pool->idle, &r->node);
}

// ---- life ----

error *state_memory_new(gpus *g, state_source *source)
{
  state_pool *pool = calloc(1, sizeof(*pool));
  if (pool == NULL)
    return error_no_memory();
  pool->gpus = g;
  list_init(&pool->idle);
  pthread_mutex_init(&pool->lock, NULL);
  *source = (state_source){.context = pool,
                           .take = take,
                           .give_back = give_back,
                           .take_region = take_region,
                           .grow_region = grow_region,
                           .give_region_back = give_region_back};
  return NULL;
}

void state_memory_free(state_source *source)
{
  state_pool *pool = source->context;
  list_node *node;
  if (pool == NULL)
    return;
  while ((node = list_take_first(&pool->idle)) != NULL)
    free_region(container_of(node, region, node));
  pthread_mutex_destroy(&pool->lock);
  free(pool);
  *source = (state_source){0};
}
