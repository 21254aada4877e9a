// SPDX-License-Identifier: Apache-2.0
// Copies from and to devices for which this backend has no stream.
#include "backend_copy.h"

#include "backend_error.h"
#include "base/cleanup.h"
#include "gpu/context.h"

#include <pthread.h>
#include <stdatomic.h>

static pthread_mutex_t reach_lock = PTHREAD_MUTEX_INITIALIZER; // for changes
static _Atomic uint64_t reached;                               // one bit per held device
_Static_assert(MAX_GPUS <= 64, "a bit for each device");

error *backend_device_reach(int ordinal)
{
  const uint64_t bit = ordinal >= 0 && ordinal < MAX_GPUS ? UINT64_C(1) << ordinal : 0;
  if ((atomic_load_explicit(&reached, memory_order_acquire) & bit) != 0)
    return NULL;
  LOCK_SCOPE(&reach_lock);
  if ((atomic_load_explicit(&reached, memory_order_relaxed) & bit) == 0) {
    RETURN_IF_ERROR(gpu_context_hold(ordinal));
    atomic_fetch_or_explicit(&reached, bit, memory_order_release);
  }
  return NULL;
}

void backend_devices_leave(void)
{
  LOCK_SCOPE(&reach_lock);
  uint64_t left = atomic_exchange_explicit(&reached, 0, memory_order_relaxed);
  for (int i = 0; left != 0; i++, left >>= 1)
    if ((left & 1) != 0)
      gpu_context_release(i);
}

static error *copy_now(void *to, gpu_place to_place, const void *from, gpu_place from_place,
                       size_t bytes, const char *name)
{
  if (to_place.kind == GPU_MEMORY_DEVICE)
    RETURN_IF_ERROR(backend_device_reach(to_place.device));
  if (from_place.kind == GPU_MEMORY_DEVICE)
    RETURN_IF_ERROR(backend_device_reach(from_place.device));
  return gpu_copy_now(to, to_place, from, from_place, bytes, name);
}

TRITONSERVER_Error *backend_copy_now(void *to, gpu_place to_place, const void *from,
                                     gpu_place from_place, size_t bytes, const char *name)
{
  return backend_error_of(copy_now(to, to_place, from, from_place, bytes, name));
}
