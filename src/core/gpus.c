// SPDX-License-Identifier: Apache-2.0
// See gpus.h. `lock` guards the counts, for moments. The driver may hang, so a call of it holds at
// most its device's lock and the right to change the pinned pool, for which others wait a limited
// time. A call on a device whose context is held needs no lock. Nor does taking memory of a pool.
#include "core/gpus.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "base/thread.h"
#include "gpu/context.h"
#include "gpu/health.h"

#include <assert.h>
#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POOL_BYTES    (UINT64_C(1) << 26) // of a device, unless the operator says otherwise
#define ADDRESS_BYTES (UINT64_C(1) << 30)
#define LIMIT_OF      "model-load-gpu-limit-device-" // the setting of backends; then the device
#define PATIENCE_NS   UINT64_C(5000000000) // while another thread makes or frees the pinned pool

// The place of a pool. Threads that use the pool count as `inside`; it is freed when none is, and
// nothing of it is taken.
typedef struct pool_slot {
  gpu_pool *_Atomic pool; // changes with the device's lock held, the pinned one with `is_changing`
  _Atomic unsigned inside;
  _Atomic bool closing; // nothing may be taken any more
} pool_slot;

typedef struct gpu_use {
  pthread_mutex_t lock; // held while the device's context and pool are made and freed
  _Atomic size_t users; // changes with `lock`
  pool_slot pool;
  uint64_t pool_bytes, address_bytes; // of the options
} gpu_use;

struct gpus {
  const gpu_devices *devices;
  double capability, limits[MAX_GPUS]; // limits: of --model-load-gpu-limit
  uint64_t pinned_bytes;
  bool peers;
  size_t supported_count;
  int32_t supported[MAX_GPUS];
  gpu_use of[MAX_GPUS];
  pool_slot pinned;
  pthread_mutex_t lock;                  // guards what follows; no other is taken within it
  pthread_cond_t changed;                // `is_changing`
  bool is_changing;                      // a thread makes or frees the pinned pool
  size_t users;                          // of any device, also those about to be
  _Atomic bool told_peers;               // logged: some do not reach each other
  _Atomic bool told_device, told_pinned; // logged: there was no room
};

// ---- what there is ----

static uint64_t size_of(const server_options *o, const char *what, int device, uint64_t otherwise)
{
  char name[16];
  uint64_t bytes;
  snprintf(name, sizeof(name), "%d", device);
  const char *text = setting_list_get(&o->gpu_sizes, what, name);
  return text != NULL && text_to_uint64(slice_of(text), &bytes) ? bytes : otherwise;
}

static double limit_of(const server_options *o, int device)
{
  char name[48];
  snprintf(name, sizeof(name), LIMIT_OF "%d", device);
  double limit;
  const char *text = setting_list_get(&o->backend_settings, "", name);
  return text != NULL && text_to_double(slice_of(text), &limit) ? limit : 1;
}

// None where the driver does not work: models without GPUs are served all the same. The words are
// Triton's; like Triton, this says nothing where there is no driver.
static const gpu_devices *find_devices(void)
{
  const gpu_devices *devices;
  const gpu_driver *driver;
  AUTO_ERROR error *e = gpu_driver_open(&driver);
  if (e == NULL)
    e = gpu_devices_find(&devices, NULL);
  if (e == NULL)
    return devices;
  if (error_get_code(e) != ERROR_NOT_FOUND) {
    log_warning("Unable to allocate pinned system memory, pinned memory pool will not be "
                "available: %s",
                error_message(e));
    log_info("CUDA memory pool disabled");
  }
  return gpu_devices_none();
}

static void find_supported(gpus *g)
{
  for (size_t i = 0; i < g->devices->count; i++)
    if (gpu_device_supported(&g->devices->items[i], g->capability))
      g->supported[g->supported_count++] = (int32_t)i;
}

static void tell_absent(const gpus *g, const char *flag, const char *device)
{
  uint64_t ordinal;
  if (text_to_uint64(slice_of(device), &ordinal) && ordinal >= g->devices->count)
    log_warning("--%s has no effect on GPU %s: CUDA shows %zu", flag, device, g->devices->count);
}

// A configuration may be that of other machines: where no GPU is used only the limit is named.
static void tell_without_effect(const gpus *g, const server_options *o)
{
  bool limited = false;
  for (size_t i = 0; g->devices->count > 0 && i < o->gpu_sizes.count; i++) {
    const setting *s = &o->gpu_sizes.items[i];
    const bool pool = strcmp(s->group, GPU_POOL_SIZE) == 0;
    tell_absent(g, pool ? "cuda-memory-pool-byte-size" : "cuda-virtual-address-size", s->name);
  }
  for (size_t i = 0; i < o->backend_settings.count; i++) {
    const setting *s = &o->backend_settings.items[i];
    double limit;
    if (!text_starts_with(s->name, LIMIT_OF) || !text_to_double(slice_of(s->value), &limit) ||
        limit >= 1)
      continue;
    limited = true;
    if (g->devices->count > 0)
      tell_absent(g, "model-load-gpu-limit", s->name + strlen(LIMIT_OF));
  }
  if (limited && g->devices->count == 0)
    log_warning("--model-load-gpu-limit has no effect: no GPU is used");
}

error *gpus_new(const server_options *options, gpus **result)
{
  gpus *g = calloc(1, sizeof(*g));
  *result = NULL;
  if (g == NULL)
    return error_no_memory();
  g->devices = find_devices();
  g->capability = options->min_compute_capability;
  g->pinned_bytes = options->pinned_memory_pool_bytes;
  g->peers = options->enable_peer_access;
  for (int i = 0; i < MAX_GPUS; i++) {
    g->of[i].pool_bytes = size_of(options, GPU_POOL_SIZE, i, POOL_BYTES);
    g->of[i].address_bytes = size_of(options, GPU_ADDRESS_SPACE_SIZE, i, ADDRESS_BYTES);
    g->limits[i] = limit_of(options, i);
    pthread_mutex_init(&g->of[i].lock, NULL);
  }
  find_supported(g);
  tell_without_effect(g, options);
  pthread_mutex_init(&g->lock, NULL);
  pthread_cond_init(&g->changed, NULL);
  *result = g;
  return NULL;
}

const gpu_devices *gpus_devices(const gpus *g)
{
  return g->devices;
}

config_gpus gpus_supported(const gpus *g)
{
  return g == NULL ? CONFIG_NO_GPUS
                   : (config_gpus){g->supported, g->supported_count, g->capability, false};
}

uint64_t gpus_pool_size(const gpus *g, int device)
{
  return g->of[device].pool_bytes;
}

uint64_t gpus_address_space(const gpus *g, int device)
{
  return g->of[device].address_bytes;
}

static bool is_device(const gpus *g, int device)
{
  return device >= 0 && (size_t)device < g->devices->count;
}

static error *no_such_device(const gpus *g, int device)
{
  return error_new(ERROR_INTERNAL, "Failed to set device: invalid device ordinal: GPU %d of %zu",
                   device, g->devices->count);
}

// ---- pools ----

// NULL: there is none.
static gpu_pool *enter(pool_slot *slot)
{
  atomic_fetch_add(&slot->inside, 1);
  return atomic_load(&slot->pool);
}

static void leave(pool_slot *slot)
{
  atomic_fetch_sub(&slot->inside, 1);
}

static void await_nobody(pool_slot *slot)
{
  while (atomic_load(&slot->inside) > 0)
    sched_yield(); // for as long as it takes to take a piece or to count
}

// False: some of it is still taken, so the pool stays.
static bool close_slot(pool_slot *slot)
{
  gpu_pool *pool = atomic_load(&slot->pool);
  gpu_pool_counts counts;
  if (pool == NULL)
    return true;
  atomic_store(&slot->closing, true);
  await_nobody(slot); // threads inside before may still take memory
  gpu_pool_count(pool, &counts);
  bool unused = counts.used_bytes == 0;
  if (unused) {
    atomic_store(&slot->pool, NULL);
    await_nobody(slot); // threads inside may give the last piece back, or ask something
    gpu_pool_free(pool);
  }
  atomic_store(&slot->closing, false);
  return unused;
}

// The log line is Triton's.
static void tell_pinned(gpu_pool *pool, uint64_t bytes)
{
  void *first;
  AUTO_ERROR error *e = gpu_pool_take(pool, 1, &first);
  if (e != NULL || first == NULL)
    return;
  gpu_pool_give_back(pool, first);
  log_info("Pinned memory pool is created at '%p' with size %" PRIu64, first, bytes);
}

// A context is needed to make the pool, which keeps it: that of the first device in use.
static void make_pinned(gpus *g, int device)
{
  gpu_pool *pool;
  AUTO_ERROR error *e =
      gpu_pool_new((gpu_place){GPU_MEMORY_PINNED, device}, g->pinned_bytes, &pool);
  if (e != NULL) {
    log_warning("Unable to allocate pinned system memory, pinned memory pool will not be "
                "available: %s",
                error_message(e));
    return;
  }
  tell_pinned(pool, g->pinned_bytes);
  atomic_store(&g->pinned.pool, pool);
}

// False: another thread has not ended its change in time.
static bool begin_change(gpus *g)
{
  uint64_t until_ns = clock_monotonic_ns() + PATIENCE_NS;
  LOCK_SCOPE(&g->lock);
  while (g->is_changing)
    if (!thread_wait(&g->changed, &g->lock, until_ns))
      return false;
  g->is_changing = true;
  return true;
}

static void end_change(gpus *g)
{
  LOCK_SCOPE(&g->lock);
  g->is_changing = false;
  pthread_cond_broadcast(&g->changed);
}

static void open_pinned(gpus *g, int device, bool is_first)
{
  if (g->pinned_bytes == 0 && is_first)
    log_info("Pinned memory pool disabled");
  if (g->pinned_bytes == 0 || !begin_change(g))
    return;
  if (atomic_load(&g->pinned.pool) == NULL)
    make_pinned(g, device);
  end_change(g);
}

static void close_pinned(gpus *g)
{
  if (!begin_change(g))
    return;
  pthread_mutex_lock(&g->lock);
  bool unused = g->users == 0; // a new user waits for the change to end
  pthread_mutex_unlock(&g->lock);
  if (unused)
    close_slot(&g->pinned);
  end_change(g);
}

static void open_pool(gpus *g, int device)
{
  gpu_pool *pool;
  gpu_use *use = &g->of[device];
  if (atomic_load(&use->pool.pool) != NULL)
    return;
  if (use->pool_bytes == 0) {
    log_info("CUDA memory pool disabled");
    return;
  }
  AUTO_ERROR error *e =
      gpu_pool_new((gpu_place){GPU_MEMORY_DEVICE, device}, use->pool_bytes, &pool);
  if (e != NULL) {
    log_warning("Unable to allocate CUDA memory pool on device %d, which will not be available: %s",
                device, error_message(e));
    return;
  }
  log_info("CUDA memory pool is created on device %d with size %" PRIu64, device, use->pool_bytes);
  atomic_store(&use->pool.pool, pool);
}

// ---- users ----

// Holds the other devices' contexts meanwhile, as their last users may leave; the caller is a user
// of `device`.
static void enable_peers(gpus *g, int device)
{
  int used[MAX_GPUS];
  size_t count = 0;
  assert(gpu_context_of(device) != NULL);
  for (size_t i = 0; g->peers && i < g->supported_count; i++) {
    int other = g->supported[i];
    if (gpus_users(g, other) == 0 || gpu_health_of(other) != GPU_HEALTH_GOOD)
      continue;
    AUTO_ERROR error *e = gpu_context_hold(other);
    if (e == NULL)
      used[count++] = other;
  }
  AUTO_ERROR error *e = count > 1 ? gpu_context_enable_peers(device, used, count) : NULL;
  if (e != NULL && !atomic_exchange(&g->told_peers, true))
    log_warning("%s", error_message(e));
  while (count > 0)
    gpu_context_release(used[--count]);
}

// True: it is the first user of any device.
static bool add_user(gpus *g)
{
  LOCK_SCOPE(&g->lock);
  return g->users++ == 0;
}

static bool remove_user(gpus *g)
{
  LOCK_SCOPE(&g->lock);
  return --g->users == 0;
}

// *is_first: this user is the device's first.
static error *use_device(gpus *g, int device, bool is_first_of_any, bool *is_first)
{
  gpu_use *use = &g->of[device];
  LOCK_SCOPE(&use->lock);
  *is_first = use->users == 0;
  if (*is_first) {
    RETURN_IF_ERROR(gpu_context_hold(device));
    open_pinned(g, device, is_first_of_any);
    open_pool(g, device);
  }
  use->users++;
  return NULL;
}

error *gpus_use(gpus *g, int device)
{
  bool is_first;
  if (!is_device(g, device))
    return no_such_device(g, device);
  error *e = use_device(g, device, add_user(g), &is_first);
  if (e == NULL && is_first)
    enable_peers(g, device);
  if (e != NULL && remove_user(g))
    close_pinned(g);
  return e;
}

// If memory of a pool was out when the device's last user left, the pool is freed here. A device
// whose lock is taken is left to the thread that has it.
static void close_unused(gpus *g, int device)
{
  gpu_use *use = &g->of[device];
  if (pthread_mutex_trylock(&use->lock) != 0)
    return;
  if (use->users == 0)
    close_slot(&use->pool);
  pthread_mutex_unlock(&use->lock);
}

void gpus_leave(gpus *g, int device)
{
  gpu_use *use = &g->of[device];
  pthread_mutex_lock(&use->lock);
  assert(is_device(g, device) && use->users > 0);
  if (--use->users == 0) {
    gpu_context_release(device); // the pool still holds it
    close_slot(&use->pool);
  }
  pthread_mutex_unlock(&use->lock);
  for (int i = 0; (size_t)i < g->devices->count; i++)
    if (i != device)
      close_unused(g, i);
  if (remove_user(g))
    close_pinned(g);
}

// Takes no lock: a device that hangs must not stop the thread that watches the others.
size_t gpus_users(gpus *g, int device)
{
  return atomic_load(&g->of[device].users);
}

void gpus_describe_use(gpus *g, int device, char *text, size_t size)
{
  const gpu_device *d = &g->devices->items[device];
  size_t users = gpus_users(g, device);
  if (!gpu_device_supported(d, g->capability))
    snprintf(text, size, "not used: less than the minimum supported capability of %.1f",
             g->capability);
  else if (users == 0)
    snprintf(text, size, "not used yet");
  else
    snprintf(text, size, "in use by %zu", users);
}

void gpus_free(gpus *g)
{
  if (g == NULL)
    return;
  assert(g->users == 0);
  for (size_t i = 0; i < g->devices->count; i++)
    close_slot(&g->of[i].pool);
  close_slot(&g->pinned);
  for (int i = 0; i < MAX_GPUS; i++)
    pthread_mutex_destroy(&g->of[i].lock);
  pthread_cond_destroy(&g->changed);
  pthread_mutex_destroy(&g->lock);
  free(g);
}

// The caller holds the device's context.
static error *check_memory(const gpus *g, int device, const char *instance)
{
  CUcontext before;
  size_t unused = 0, total = 0;
  assert(gpu_context_of(device) != NULL);
  RETURN_IF_ERROR(gpu_context_visit(device, &before));
  CUresult code = gpu_driver_opened()->cuMemGetInfo_v2(&unused, &total);
  gpu_context_leave(before);
  RETURN_IF_ERROR(gpu_error_on(device, code, "unable to get memory info for device %d", device));
  if ((double)(total - unused) <= (double)total * g->limits[device])
    return NULL;
  return error_new(ERROR_UNAVAILABLE,
                   "can not create model '%s': memory limit set for GPU %d has exceeded, model "
                   "loading is rejected.",
                   instance, device);
}

error *gpus_check_limit(gpus *g, int device, const char *instance)
{
  if (g->limits[device] >= 1)
    return NULL;
  RETURN_IF_ERROR(gpu_context_hold(device)); // the instance may be in another process
  error *e = check_memory(g, device, instance);
  gpu_context_release(device);
  return e;
}

// ---- memory ----

static pool_slot *slot_of(gpus *g, gpu_place place)
{
  return place.kind == GPU_MEMORY_PINNED ? &g->pinned : &g->of[place.device].pool;
}

static error *no_pool(gpu_place place)
{
  if (place.kind == GPU_MEMORY_PINNED)
    return error_new(ERROR_INTERNAL,
                     "failed to allocate pinned system memory: no pinned memory pool");
  return error_new(ERROR_UNAVAILABLE,
                   "CudaMemoryManager has no preallocated CUDA memory: there is no pool on GPU %d",
                   place.device);
}

static error *no_room(gpu_pool *pool, gpu_place place, size_t bytes)
{
  gpu_pool_counts counts;
  gpu_pool_count(pool, &counts);
  if (place.kind == GPU_MEMORY_PINNED)
    return error_new(ERROR_INTERNAL,
                     "failed to allocate pinned system memory: %" PRIu64 " of %" PRIu64
                     " bytes are in use (--pinned-memory-pool-byte-size)",
                     counts.used_bytes, counts.total_bytes);
  return error_new(ERROR_INTERNAL,
                   "Failed to allocate CUDA memory with byte size %zu on GPU %d: "
                   "CNMEM_STATUS_OUT_OF_MEMORY: %" PRIu64 " of %" PRIu64
                   " bytes are in use (--cuda-memory-pool-byte-size)",
                   bytes, place.device, counts.used_bytes, counts.total_bytes);
}

static error *take_of_heap(size_t bytes, void **memory)
{
  *memory = malloc(bytes > 0 ? bytes : 1);
  return *memory == NULL ? error_no_memory() : NULL;
}

// The words of a Triton without GPUs.
static error *no_such_memory(gpu_place place)
{
  return error_new(ERROR_UNSUPPORTED, "%s memory allocation not supported",
                   place.kind == GPU_MEMORY_DEVICE ? "GPU" : "Pinned");
}

error *gpus_take(gpus *g, gpu_place place, size_t bytes, void **memory)
{
  *memory = NULL;
  if (place.kind == GPU_MEMORY_HOST)
    return take_of_heap(bytes, memory);
  if (g == NULL || g->devices->count == 0)
    return no_such_memory(place);
  if (place.kind == GPU_MEMORY_DEVICE && !is_device(g, place.device))
    return no_such_device(g, place.device);
  pool_slot *slot = slot_of(g, place);
  gpu_pool *pool = enter(slot);
  bool there = pool != NULL && !atomic_load(&slot->closing);
  error *e = there ? gpu_pool_take(pool, bytes, memory) : no_pool(place);
  if (e == NULL && *memory == NULL)
    e = no_room(pool, place, bytes);
  leave(slot);
  return e;
}

bool gpus_owns(gpus *g, gpu_place place, const void *memory)
{
  if (g == NULL || place.kind == GPU_MEMORY_HOST ||
      (place.kind == GPU_MEMORY_DEVICE && !is_device(g, place.device)))
    return false;
  pool_slot *slot = slot_of(g, place);
  gpu_pool *pool = enter(slot);
  bool owns = pool != NULL && gpu_pool_owns(pool, memory);
  leave(slot);
  return owns;
}

void gpus_give_back(gpus *g, gpu_place place, void *memory)
{
  if (place.kind == GPU_MEMORY_HOST) {
    free(memory);
    return;
  }
  pool_slot *slot = slot_of(g, place);
  gpu_pool_give_back(enter(slot), memory); // the pool exists as long as this is taken
  leave(slot);
}

static void warn_once(_Atomic bool *told, const error *e, const char *instead)
{
  if (!atomic_exchange(told, true))
    log_warning("%s, falling back to %s", error_message(e), instead);
}

// No fallback is logged where no device is used.
error *gpus_take_any(gpus *g, gpu_place *place, size_t bytes, void **memory)
{
  bool there = g != NULL && atomic_load(&g->pinned.pool) != NULL;
  if (place->kind == GPU_MEMORY_DEVICE) {
    AUTO_ERROR error *e = gpus_take(g, *place, bytes, memory);
    if (e == NULL)
      return NULL;
    if (there)
      warn_once(&g->told_device, e, "pinned system memory");
  }
  *place = (gpu_place){GPU_MEMORY_PINNED, 0};
  if (there) {
    AUTO_ERROR error *e = gpus_take(g, *place, bytes, memory);
    if (e == NULL)
      return NULL;
    warn_once(&g->told_pinned, e, "non-pinned system memory");
  }
  *place = (gpu_place){GPU_MEMORY_HOST, 0};
  return take_of_heap(bytes, memory);
}

static void add_counts(pool_slot *slot, gpu_pool_counts *sum)
{
  gpu_pool_counts counts;
  gpu_pool *pool = enter(slot);
  if (pool != NULL) {
    gpu_pool_count(pool, &counts);
    sum->total_bytes += counts.total_bytes;
    sum->used_bytes += counts.used_bytes;
    sum->largest_free_bytes += counts.largest_free_bytes;
    sum->takes += counts.takes;
    sum->misses += counts.misses;
  }
  leave(slot);
}

void gpus_count(gpus *g, gpu_memory_kind kind, int device, gpu_pool_counts *counts)
{
  *counts = (gpu_pool_counts){0};
  if (g == NULL || kind == GPU_MEMORY_HOST)
    return;
  if (kind == GPU_MEMORY_PINNED) {
    add_counts(&g->pinned, counts);
    return;
  }
  for (size_t i = 0; i < g->devices->count; i++)
    if (device < 0 || (size_t)device == i)
      add_counts(&g->of[i].pool, counts);
}
