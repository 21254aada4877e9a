// SPDX-License-Identifier: Apache-2.0
// The primary contexts that this copy of the layer holds, and the lanes in each. Any thread. A
// device's lock is held while its context is made or released, never by a request. A device that
// has gone is not called any more, since the call might never return; its resources stay until the
// process ends.
#include "gpu/context.h"

#include "base/cleanup.h"
#include "base/thread.h"
#include "gpu/health.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef struct home {
  pthread_mutex_t lock;
  _Atomic unsigned holds;     // the first hold and the last release take `lock`
  _Atomic(CUcontext) context; // NULL: not held; written with `lock`, or when the device has gone
  CUstream asking;            // stream of gpu_context_ask; guarded by `lock`
  pthread_mutex_t lanes_lock; // locked after `lock`; guards both lists
  list lanes, lost;           // spare lanes, and lanes that were given up
} home;

static home homes[MAX_GPUS];
static _Thread_local unsigned guests;  // open visits of this thread
static _Thread_local int capture_mode; // this thread's mode before its first visit
static _Thread_local bool entered;     // one of the visits is for good
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void init_homes(void)
{
  for (int i = 0; i < MAX_GPUS; i++) {
    pthread_mutex_init(&homes[i].lock, NULL);
    pthread_mutex_init(&homes[i].lanes_lock, NULL);
    list_init(&homes[i].lanes);
    list_init(&homes[i].lost);
  }
}

static const gpu_driver *driver_of(int device)
{
  assert(gpu_driver_opened() != NULL && device >= 0 && device < MAX_GPUS);
  (void)device;
  return gpu_driver_opened();
}

static error *find_device(int device, const gpu_device **found)
{
  const gpu_devices *devices;
  const char *why;
  RETURN_IF_ERROR(gpu_devices_find(&devices, &why));
  if (device < 0 || (size_t)device >= devices->count)
    return error_new(ERROR_INVALID_ARG, "there is no GPU %d: CUDA shows %zu%s%s", device,
                     devices->count, why != NULL ? ", " : "", why != NULL ? why : "");
  *found = &devices->items[device];
  return NULL;
}

// Adds a hold to a held device. Does not take the lock, which gpu_context_ask may keep for long.
static bool join_holders(home *h)
{
  unsigned holds = atomic_load(&h->holds);
  while (holds > 0)
    if (atomic_compare_exchange_weak(&h->holds, &holds, holds + 1))
      return true;
  return false;
}

// False: this would release the last hold.
static bool leave_others(home *h)
{
  unsigned holds = atomic_load(&h->holds);
  assert(holds > 0);
  while (holds > 1)
    if (atomic_compare_exchange_weak(&h->holds, &holds, holds - 1))
      return true;
  return false;
}

error *gpu_context_hold(int device)
{
  const gpu_device *found;
  RETURN_IF_ERROR(find_device(device, &found));
  pthread_once(&once, init_homes);
  home *h = &homes[device];
  if (join_holders(h))
    return NULL;
  LOCK_SCOPE(&h->lock);
  if (atomic_load(&h->holds) == 0) {
    CUcontext context;
    RETURN_IF_ERROR(gpu_health_lost_error(device));
    CUresult code = driver_of(device)->cuDevicePrimaryCtxRetain(&context, found->handle);
    RETURN_IF_ERROR(gpu_error_on(device, code, "GPU %d: no context", device));
    atomic_store_explicit(&h->context, context, memory_order_release);
  }
  atomic_fetch_add(&h->holds, 1);
  return NULL;
}

static void free_lane(gpu_lane *lane, const gpu_driver *driver)
{
  driver->cuStreamDestroy_v2(lane->stream);
  if (lane->staging != NULL)
    driver->cuMemFreeHost(lane->staging);
  free(lane);
}

static gpu_lane *take_spare(home *h)
{
  LOCK_SCOPE(&h->lanes_lock);
  list_node *node = list_take_first(&h->lanes);
  return node != NULL ? container_of(node, gpu_lane, node) : NULL;
}

// Streams go before their context. Errors of a dead context do not matter.
static void drop_streams(home *h, const gpu_driver *driver)
{
  assert(lock_is_held(&h->lock));
  for (gpu_lane *lane; (lane = take_spare(h)) != NULL;)
    free_lane(lane, driver);
  if (h->asking != NULL)
    driver->cuStreamDestroy_v2(h->asking);
  h->asking = NULL;
}

static void let_go(home *h, int device)
{
  const gpu_driver *driver = driver_of(device);
  const gpu_device *found;
  AUTO_ERROR error *missing = find_device(device, &found);
  assert(missing == NULL);
  CUcontext context = h->context, before = NULL;
  AUTO_ERROR error *e = gpu_context_visit(device, &before);
  bool gone = e != NULL && gpu_health_is_gone(device);
  if (!gone)
    drop_streams(h, driver);
  atomic_store_explicit(&h->context, NULL, memory_order_release);
  if (gone)
    return;
  if (missing == NULL)
    gpu_health_tell(device, driver->cuDevicePrimaryCtxRelease_v2(found->handle));
  if (e == NULL) // no thread may stay in a context that has gone
    gpu_context_leave(before == context && !gpu_context_is_active(device) ? NULL : before);
}

// Does not take the lock, which a hanging gpu_context_ask may keep; no thread can make the first
// hold of a device that has gone. False: the device has not gone.
static bool leave_gone(home *h, int device)
{
  if (!gpu_health_is_gone(device))
    return false;
  if (atomic_fetch_sub(&h->holds, 1) == 1)
    atomic_store_explicit(&h->context, NULL, memory_order_release);
  return true;
}

void gpu_context_release(int device)
{
  home *h = &homes[device];
  if (leave_others(h) || leave_gone(h, device))
    return;
  LOCK_SCOPE(&h->lock);
  if (atomic_fetch_sub(&h->holds, 1) == 1) // no other hold was added meanwhile
    let_go(h, device);
}

CUcontext gpu_context_of(int device)
{
  if (device < 0 || device >= MAX_GPUS)
    return NULL;
  return atomic_load_explicit(&homes[device].context, memory_order_acquire);
}

// While a framework captures a graph, the driver refuses some calls of other threads (an event's
// query, memory), unless their capture mode is relaxed.
static void relax(const gpu_driver *driver)
{
  if (guests++ > 0 || driver->cuThreadExchangeStreamCaptureMode == NULL)
    return;
  capture_mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  driver->cuThreadExchangeStreamCaptureMode(&capture_mode);
}

static void be_strict_again(const gpu_driver *driver)
{
  assert(guests > 0);
  if (--guests == 0 && driver->cuThreadExchangeStreamCaptureMode != NULL)
    driver->cuThreadExchangeStreamCaptureMode(&capture_mode);
}

error *gpu_context_visit(int device, CUcontext *before)
{
  CUcontext context = gpu_context_of(device);
  if (context == NULL)
    return error_new(ERROR_INTERNAL, "GPU %d is not in use by this process", device);
  if (gpu_health_is_gone(device))
    return gpu_health_lost_error(device);
  const gpu_driver *driver = driver_of(device);
  CUresult code = driver->cuCtxGetCurrent(before);
  if (code == CUDA_SUCCESS && *before != context)
    code = driver->cuCtxSetCurrent(context);
  if (code == CUDA_SUCCESS)
    relax(driver);
  return gpu_error_on(device, code, "GPU %d: its context cannot be entered", device);
}

void gpu_context_leave(CUcontext before)
{
  const gpu_driver *driver = gpu_driver_opened();
  CUcontext current;
  be_strict_again(driver);
  if (driver->cuCtxGetCurrent(&current) != CUDA_SUCCESS || current != before)
    driver->cuCtxSetCurrent(before);
}

error *gpu_context_enter(int device)
{
  CUcontext before;
  RETURN_IF_ERROR(gpu_context_visit(device, &before));
  if (entered)
    be_strict_again(gpu_driver_opened());
  entered = true; // the thread stays relaxed
  return NULL;
}

static bool enable_peer(int device, int peer, const gpu_device *own, const gpu_device *other)
{
  const gpu_driver *driver = driver_of(device);
  int can = 0;
  if (driver->cuDeviceCanAccessPeer(&can, own->handle, other->handle) != CUDA_SUCCESS || can != 1)
    return false;
  CUcontext before;
  AUTO_ERROR error *e = gpu_context_visit(device, &before);
  if (e != NULL)
    return false;
  CUresult code = driver->cuCtxEnablePeerAccess(gpu_context_of(peer), 0);
  gpu_context_leave(before);
  return code == CUDA_SUCCESS || code == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

error *gpu_context_enable_peers(int device, const int *peers, size_t count)
{
  bool all = true;
  for (size_t i = 0; i < count; i++) {
    const gpu_device *own, *other;
    RETURN_IF_ERROR(find_device(device, &own));
    RETURN_IF_ERROR(find_device(peers[i], &other));
    if (peers[i] == device || gpu_context_of(device) == NULL || gpu_context_of(peers[i]) == NULL)
      continue;
    all &= enable_peer(device, peers[i], own, other);
    all &= enable_peer(peers[i], device, other, own);
  }
  return all ? NULL
             : error_new(ERROR_INTERNAL, "failed to enable peer access for some device pairs");
}

bool gpu_context_is_active(int device)
{
  const gpu_device *found;
  AUTO_ERROR error *e = find_device(device, &found);
  unsigned flags;
  int active = 0;
  return e == NULL &&
         driver_of(device)->cuDevicePrimaryCtxGetState(found->handle, &flags, &active) ==
             CUDA_SUCCESS &&
         active != 0;
}

CUresult gpu_context_take_lane(int device, gpu_lane **lane)
{
  *lane = take_spare(&homes[device]);
  if (*lane != NULL)
    return CUDA_SUCCESS;
  gpu_lane *made = calloc(1, sizeof(*made));
  if (made == NULL)
    return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult code =
      driver_of(device)->cuStreamCreateWithPriority(&made->stream, CU_STREAM_NON_BLOCKING, 0);
  if (code == CUDA_SUCCESS)
    *lane = made;
  else
    free(made);
  return code;
}

void gpu_context_give_lane(int device, gpu_lane *lane, bool idle)
{
  home *h = &homes[device];
  assert(gpu_context_of(device) != NULL);
  LOCK_SCOPE(&h->lanes_lock);
  list_prepend(idle ? &h->lanes : &h->lost, &lane->node); // the last used is the first reused
}

// A fault makes every later call of the context fail, so querying an idle stream is enough, and it
// gives the device no work.
static CUresult ask(home *h, const gpu_driver *driver)
{
  assert(lock_is_held(&h->lock));
  CUresult code = CUDA_SUCCESS;
  if (h->asking == NULL)
    code = driver->cuStreamCreateWithPriority(&h->asking, CU_STREAM_NON_BLOCKING, 0);
  if (code == CUDA_SUCCESS)
    code = driver->cuStreamQuery(h->asking);
  return code == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : code;
}

CUresult gpu_context_ask(int device)
{
  if (gpu_context_of(device) == NULL)
    return CUDA_SUCCESS;
  home *h = &homes[device];
  if (pthread_mutex_trylock(&h->lock) != 0)
    return CUDA_SUCCESS;
  const gpu_driver *driver = driver_of(device);
  CUresult code = CUDA_SUCCESS;
  CUcontext before;
  AUTO_ERROR error *e = h->holds > 0 ? gpu_context_visit(device, &before) : NULL;
  if (h->holds > 0 && e == NULL) {
    code = ask(h, driver);
    gpu_context_leave(before);
  }
  pthread_mutex_unlock(&h->lock);
  return code;
}
