// SPDX-License-Identifier: Apache-2.0
// Regions, their ranges, and loans. `lock` guards the tables and is held for moments; `growing` is
// held while the driver makes memory.
#include "codec/device_share.h"

#include "backend_error.h"
#include "backend_log.h"
#include "base/cleanup.h"
#include "base/list.h"
#include "base/thread.h"
#include "channel_descriptor.h"
#include "codec/protocol.h"
#include "gpu/context.h"
#include "gpu/health.h"
#include "gpu/ipc.h"
#include "gpu/ranges.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define LEAST_GROWTH (2 << 20)   // also the smallest grant to a worker
#define MOST_GROWTH  (256 << 20) // beyond the need
#define MAX_DEVICES  MAX_GPUS

typedef struct shared_region {
  bool is_held;        // whether the device's context is held; guarded by `growing`
  bool is_refused;     // no memory may be taken here; guarded by `lock`
  gpu_region *region;  // guarded by `growing`; NULL: none yet
  ranges *ranges;      // guarded by `lock`
  uintptr_t base;      // guarded by `lock`
  atomic_size_t bytes; // grown so far, and known to the worker
  atomic_bool is_warned_of;
} shared_region;

typedef struct loan {
  list_node node;
  uint64_t block;
  device_range range;
} loan;

struct device_share {
  int socket;
  pthread_mutex_t growing; // locked before `lock`
  pthread_mutex_t lock;
  list loans; // guarded by `lock`
  shared_region regions[MAX_DEVICES];
};

device_share *device_share_new(int socket)
{
  device_share *self = calloc(1, sizeof(*self));
  if (self == NULL)
    return NULL;
  self->socket = socket;
  pthread_mutex_init(&self->growing, NULL);
  pthread_mutex_init(&self->lock, NULL);
  list_init(&self->loans);
  return self;
}

void device_share_free(device_share *self)
{
  if (self == NULL)
    return;
  list_foreach_safe (loan, lent, node, &self->loans)
    free(lent);
  for (int device = 0; device < MAX_DEVICES; device++) {
    shared_region *on = &self->regions[device];
    if (on->ranges != NULL)
      ranges_free(on->ranges);
    gpu_region_free(on->region);
    if (on->is_held)
      gpu_context_release(device);
  }
  pthread_mutex_destroy(&self->lock);
  pthread_mutex_destroy(&self->growing);
  free(self);
}

// ---- retiring

static pthread_mutex_t retiring_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t retired = PTHREAD_COND_INITIALIZER;
static size_t retiring; // guarded by `retiring_lock`

static void count_retiring(int more)
{
  LOCK_SCOPE(&retiring_lock);
  retiring += (size_t)more;
  if (retiring == 0)
    pthread_cond_broadcast(&retired);
}

static void *retire(void *self)
{
  device_share_free(self);
  count_retiring(-1);
  return NULL;
}

void device_share_retire(device_share *self)
{
  pthread_t thread;
  if (self == NULL)
    return;
  count_retiring(1);
  if (thread_create(&thread, "py devices", retire, self) == 0)
    pthread_detach(thread);
  else
    retire(self); // without a thread, free it here
}

void device_share_await_retired(void)
{
  LOCK_SCOPE(&retiring_lock);
  while (retiring > 0)
    pthread_cond_wait(&retired, &retiring_lock);
}

// ---- telling the worker

// Does not wait for a worker that does not read: that is the worker's fault.
static bool tell(const device_share *self, const protocol_device *what, int descriptor)
{
  return channel_send_with_descriptor(self->socket, what, sizeof(*what), descriptor,
                                      MSG_DONTWAIT) == 0;
}

static void warn(device_share *self, int device, const char *why)
{
  if (device >= 0 && device < MAX_DEVICES &&
      !atomic_exchange(&self->regions[device].is_warned_of, true))
    BACKEND_LOG_WARN("tensors of Python models on GPU %d go through CPU memory: %s", device, why);
}

static void refuse(device_share *self, shared_region *on)
{
  LOCK_SCOPE(&self->lock);
  on->is_refused = true;
}

// ---- regions, with `growing` held

static error *hold(const device_share *self, shared_region *on, int device)
{
  (void)self;
  assert(lock_is_held(&self->growing));
  if (on->is_held)
    return NULL;
  RETURN_IF_ERROR(gpu_context_hold(device));
  on->is_held = true;
  return NULL;
}

static error *make(device_share *self, shared_region *on, int device)
{
  const gpu_devices *devices;
  const char *why;
  if (on->region != NULL)
    return NULL;
  RETURN_IF_ERROR(hold(self, on, device));
  RETURN_IF_ERROR(gpu_devices_find(&devices, &why));
  ranges *books;
  gpu_region *region;
  error *e = gpu_region_new(device, devices->items[device].memory_bytes, &region);
  if (e != NULL) {
    if (error_get_code(e) == ERROR_UNSUPPORTED)
      refuse(self, on); // it will not be supported later either
    return e;
  }
  e = ranges_new(&books);
  if (e != NULL) {
    gpu_region_free(region);
    return e;
  }
  LOCK_SCOPE(&self->lock);
  on->region = region;
  on->ranges = books;
  on->base = (uintptr_t)gpu_region_base(region);
  return NULL;
}

static size_t growth(size_t filled, size_t needed)
{
  size_t more = filled < MOST_GROWTH ? filled : MOST_GROWTH;
  more = more < needed ? needed : more;
  return more < LEAST_GROWTH ? LEAST_GROWTH : more;
}

static error *grow(device_share *self, shared_region *on, int device, size_t needed)
{
  assert(lock_is_held(&self->growing));
  AUTO_CLOSE int descriptor = -1;
  size_t added = 0;
  const size_t filled = gpu_region_bytes(on->region);
  error *e = gpu_region_grow(on->region, filled + growth(filled, needed), &descriptor, &added);
  if (e != NULL && growth(filled, needed) > needed) { // try without the extra memory
    error_free(e);
    e = gpu_region_grow(on->region, filled + needed, &descriptor, &added);
  }
  RETURN_IF_ERROR(e);
  const protocol_device piece = {
      .kind = DEVICE_PIECE, .device = device, .offset = filled, .size = added};
  if (!tell(self, &piece, descriptor)) {
    refuse(self, on); // the worker lacks a piece
    return error_new(ERROR_UNAVAILABLE, "the worker does not take them");
  }
  LOCK_SCOPE(&self->lock);
  RETURN_IF_ERROR(ranges_add(on->ranges, on->base + filled, added));
  atomic_store(&on->bytes, filled + added);
  return NULL;
}

// ---- ranges

// *address 0: no room.
static error *find_room(device_share *self, shared_region *on, size_t bytes, uintptr_t *address)
{
  LOCK_SCOPE(&self->lock);
  *address = 0;
  if (on->is_refused)
    return error_new(ERROR_UNAVAILABLE, "it could not be shared before");
  return on->ranges == NULL ? NULL : ranges_take(on->ranges, bytes, address);
}

static error *take(device_share *self, int device, size_t bytes, device_range *range)
{
  if (device < 0 || device >= MAX_DEVICES)
    return error_new(ERROR_INVALID_ARG, "there is no GPU %d", device);
  if (bytes == 0 || bytes > SIZE_MAX / 4)
    return error_new(ERROR_INVALID_ARG, "%zu bytes are not possible", bytes);
  shared_region *on = &self->regions[device];
  uintptr_t address;
  RETURN_IF_ERROR(find_room(self, on, bytes, &address));
  if (address == 0) {
    LOCK_SCOPE(&self->growing);
    RETURN_IF_ERROR(make(self, on, device));
    RETURN_IF_ERROR(find_room(self, on, bytes, &address)); // another thread may have grown it
    if (address == 0) {
      RETURN_IF_ERROR(grow(self, on, device, bytes));
      RETURN_IF_ERROR(find_room(self, on, bytes, &address));
    }
  }
  if (address == 0)
    return error_new(ERROR_UNAVAILABLE, "no room for %zu bytes", bytes);
  *range =
      (device_range){.memory = (void *)address, .device = device, .offset = address - on->base};
  return NULL;
}

bool device_share_take(device_share *self, int device, size_t bytes, device_range *range)
{
  AUTO_ERROR error *e = take(self, device, bytes, range);
  if (e != NULL)
    warn(self, device, error_message(e));
  return e == NULL;
}

void device_share_give_back(device_share *self, const device_range *range)
{
  LOCK_SCOPE(&self->lock);
  ranges_give_back(self->regions[range->device].ranges, (uintptr_t)range->memory);
}

bool device_share_lend(device_share *self, uint64_t block, const device_range *range)
{
  loan *made = calloc(1, sizeof(*made));
  if (made == NULL)
    return false;
  made->block = block;
  made->range = *range;
  LOCK_SCOPE(&self->lock);
  list_append(&self->loans, &made->node);
  return true;
}

void device_share_release(device_share *self, uint64_t block)
{
  LOCK_SCOPE(&self->lock);
  list_foreach_safe (loan, lent, node, &self->loans) {
    if (lent->block != block)
      continue;
    ranges_give_back(self->regions[lent->range.device].ranges, (uintptr_t)lent->range.memory);
    list_remove(&lent->node);
    free(lent);
  }
}

// Free bytes of the device; 0: unknown.
static size_t bytes_left(device_share *self, int device)
{
  CUcontext before;
  size_t left = 0, total = 0;
  LOCK_SCOPE(&self->growing);
  if (device < 0 || device >= MAX_DEVICES || !self->regions[device].is_held)
    return 0;
  AUTO_ERROR error *e = gpu_context_visit(device, &before);
  if (e != NULL)
    return 0;
  gpu_health_tell(device, gpu_driver_opened()->cuMemGetInfo_v2(&left, &total));
  gpu_context_leave(before);
  return left;
}

void device_share_grant(device_share *self, const char *who, int device, uint64_t bytes)
{
  device_range range;
  const uint64_t size = bytes < LEAST_GROWTH ? LEAST_GROWTH : bytes; // a range costs memory here
  protocol_device answer = {.kind = DEVICE_GRANT, .device = device, .size = size};
  AUTO_ERROR error *e = take(self, device, size, &range);
  if (e == NULL) {
    answer.offset = range.offset; // the worker's for the rest of its life
  } else {
    answer.kind = DEVICE_REFUSED;
    snprintf(answer.text, sizeof(answer.text), "'%.64s' wants %llu bytes, %zu are left: %s", who,
             (unsigned long long)size, bytes_left(self, device), error_message(e));
    warn(self, device, answer.text);
  }
  tell(self, &answer, -1); // if the worker does not read, it waits for its own answer in vain
}

void device_share_refuse(device_share *self, int device, const char *why)
{
  if (device < 0 || device >= MAX_DEVICES)
    return;
  refuse(self, &self->regions[device]);
  warn(self, device, why);
}

void *device_share_at(const device_share *self, int device, uint64_t offset, uint64_t size)
{
  if (self == NULL || device < 0 || device >= MAX_DEVICES)
    return NULL;
  const shared_region *on = &self->regions[device];
  const size_t bytes = atomic_load(&on->bytes);
  return offset > bytes || size > bytes - offset ? NULL : (void *)(on->base + offset);
}

// ---- copies

TRITONSERVER_Error *device_share_copy(void *to, gpu_place to_place, const void *from,
                                      gpu_place from_place, size_t bytes, const char *what,
                                      const char *name)
{
  char text[512];
  snprintf(text, sizeof(text), "%s '%s'", what, name);
  return backend_error_of(gpu_copy_now(to, to_place, from, from_place, bytes, text));
}
