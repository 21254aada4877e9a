// SPDX-License-Identifier: Apache-2.0
// The thread asks the driver. All others ask gpu/health.h, which the thread keeps up to date.
#include "core/gpu_watch.h"

#include "base/cleanup.h"
#include "core/gpu_ticker.h"
#include "gpu/health.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define LOOK_NS UINT64_C(500000000)

struct gpu_watch {
  const gpu_devices *devices;
  gpu_watch_calls calls;
  _Atomic size_t apart[MAX_GPUS]; // instances in other processes
  _Atomic bool over;              // callbacks must not be called; set with the lock held
  bool told[MAX_GPUS], any_told;  // used by the thread
  bool left_behind;               // the thread still uses all of this
  pthread_mutex_t lock;           // guards what follows
  gpu_ticker *ticker;             // NULL: nothing to watch yet, or the watch is over
};

bool gpu_fault(int device, char *text, size_t size)
{
  if (gpu_health_of(device) == GPU_HEALTH_GOOD)
    return false;
  gpu_health_text(device, text, size);
  return true;
}

error *gpu_refusal(const char *model, int device)
{
  char text[GPU_FAULT_BYTES];
  return gpu_fault(device, text, sizeof(text))
             ? error_new(ERROR_UNAVAILABLE, "model '%s' cannot run: %s", model, text)
             : NULL;
}

static void tell(gpu_watch *w, const gpu_device *device)
{
  char text[GPU_FAULT_BYTES];
  if (w->told[device->ordinal] || !gpu_fault(device->ordinal, text, sizeof(text)))
    return;
  w->told[device->ordinal] = w->any_told = true;
  w->calls.failed(w->calls.context, device, text);
}

static bool is_used(gpu_watch *w, int device)
{
  return atomic_load(&w->apart[device]) > 0 ||
         (w->calls.users != NULL && w->calls.users(w->calls.context, device) > 0);
}

static bool look(void *context)
{
  gpu_watch *w = context;
  const gpu_devices *devices = w->devices;
  bool used[MAX_GPUS], any = false;
  for (size_t i = 0; i < devices->count; i++)
    any |= used[i] = is_used(w, devices->items[i].ordinal);
  if (any)
    gpu_health_look();
  if (atomic_load(&w->over))
    return false;
  for (size_t i = 0; i < devices->count; i++)
    if (used[i])
      tell(w, &devices->items[i]);
  if (w->any_told && w->calls.refuse != NULL)
    w->calls.refuse(w->calls.context);
  return true;
}

error *gpu_watch_new(const gpu_devices *devices, gpu_watch_calls calls, gpu_watch **result)
{
  gpu_watch *w = calloc(1, sizeof(*w));
  if (w == NULL)
    return error_no_memory();
  w->devices = devices;
  w->calls = calls;
  pthread_mutex_init(&w->lock, NULL);
  *result = w;
  return NULL;
}

error *gpu_watch_begin(gpu_watch *w)
{
  LOCK_SCOPE(&w->lock);
  return w->ticker != NULL || atomic_load(&w->over)
             ? NULL
             : gpu_ticker_new("gpu-watch", LOOK_NS, look, w, &w->ticker);
}

error *gpu_watch_begin_apart(gpu_watch *w, int device)
{
  assert(device >= 0 && device < MAX_GPUS);
  atomic_fetch_add(&w->apart[device], 1);
  return gpu_watch_begin(w);
}

void gpu_watch_end_apart(gpu_watch *w, int device)
{
  assert(atomic_load(&w->apart[device]) > 0);
  atomic_fetch_sub(&w->apart[device], 1);
}

static gpu_ticker *take_ticker(gpu_watch *w)
{
  LOCK_SCOPE(&w->lock);
  atomic_store(&w->over, true);
  gpu_ticker *ticker = w->ticker;
  w->ticker = NULL;
  return ticker;
}

void gpu_watch_stop(gpu_watch *w)
{
  if (w != NULL && !gpu_ticker_free(take_ticker(w)))
    w->left_behind = true;
}

void gpu_watch_free(gpu_watch *w)
{
  gpu_watch_stop(w);
  if (w == NULL || w->left_behind)
    return;
  pthread_mutex_destroy(&w->lock);
  free(w);
}
