// SPDX-License-Identifier: Apache-2.0
// Memory of the server's pools for the embedding program. Any thread.
#include "core/gpus.h"
#include "core/server_state.h"
#include "core/server_status.h"
#include "gpu/ranges.h"
#include "nereid/nereid.h"

#include <assert.h>

// Clients may hold their shares indefinitely. The rest is for the server's own copies.
static const unsigned eighths[NEREID_PINNED_USES] = {
    [NEREID_PINNED_BODY] = 4, [NEREID_PINNED_REPLY] = 3};
static const gpu_place pinned = {.kind = GPU_MEMORY_PINNED};

_Static_assert(NEREID_PINNED_USES == PINNED_SHARES, "a count for each use");

// The bytes that the pool uses for `size`, which is at most the pool's size.
static uint64_t cost_of(size_t size)
{
  return ((uint64_t)size + RANGES_ALIGNMENT - 1) / RANGES_ALIGNMENT * RANGES_ALIGNMENT;
}

static void leave_share(server *s, NEREID_PinnedUse use, uint64_t cost)
{
  const uint64_t before =
      atomic_fetch_sub_explicit(&s->pinned_shares[use], cost, memory_order_relaxed);
  assert(before >= cost);
  (void)before;
}

static bool enter_share(server *s, NEREID_PinnedUse use, size_t size)
{
  const uint64_t limit = s->options.pinned_memory_pool_bytes / 8 * eighths[use];
  if (size > limit)
    return false;
  const uint64_t cost = cost_of(size);
  if (atomic_fetch_add_explicit(&s->pinned_shares[use], cost, memory_order_relaxed) + cost <= limit)
    return true;
  leave_share(s, use, cost);
  return false;
}

void *NEREID_ServerPinnedAllocate(TRITONSERVER_Server *s, NEREID_PinnedUse use, size_t byte_size)
{
  void *memory = NULL;
  if (!enter_share(s, use, byte_size))
    return NULL;
  error_free(gpus_take(s->environment.gpus, pinned, byte_size, &memory));
  if (memory == NULL)
    leave_share(s, use, cost_of(byte_size));
  return memory;
}

void NEREID_ServerPinnedFree(TRITONSERVER_Server *s, NEREID_PinnedUse use, void *memory,
                             size_t byte_size)
{
  gpus_give_back(s->environment.gpus, pinned, memory);
  leave_share(s, use, cost_of(byte_size));
}

bool NEREID_ServerModelWantsPinned(TRITONSERVER_Server *s, const char *model_name,
                                   int64_t model_version)
{
  model *m;
  AUTO_ERROR error *e = server_find_model(s, model_name, model_version, &m);
  if (e != NULL)
    return false;
  bool wants = atomic_load_explicit(&m->shared.wants_pinned, memory_order_relaxed);
  model_unref(m);
  return wants;
}
