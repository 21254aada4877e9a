// SPDX-License-Identifier: Apache-2.0
// All copies to, from, and between devices. Any thread that may use the stream.
#include "gpu/copy.h"

#include "gpu/context.h"
#include "gpu/health.h"

#include <assert.h>
#include <string.h>

#define STAGING_BYTES ((size_t)1 << 18) // of a lane

// With nereid's server in the process all libraries count in the server's copy; else NULL.
extern void NEREID_GpuCopied(int direction, uint64_t bytes)
    __attribute__((weak, visibility("default")));

static bool is_device(gpu_place place)
{
  return place.kind == GPU_MEMORY_DEVICE;
}

static gpu_direction direction_of(gpu_place to, gpu_place from)
{
  if (!is_device(from))
    return GPU_COPY_TO_DEVICE;
  if (!is_device(to))
    return GPU_COPY_TO_HOST;
  return to.device == from.device ? GPU_COPY_ON_DEVICE : GPU_COPY_BETWEEN_DEVICES;
}

static CUdeviceptr address(const void *memory)
{
  return (CUdeviceptr)(uintptr_t)memory;
}

typedef struct transfer {
  void *to;
  gpu_place to_place;
  const void *from; // NULL: zeros
  gpu_place from_place;
  size_t bytes;
} transfer;

static CUresult copy_between(const transfer *t, CUstream stream)
{
  CUcontext to = gpu_context_of(t->to_place.device), from = gpu_context_of(t->from_place.device);
  if (to == NULL || from == NULL)
    return CUDA_ERROR_INVALID_CONTEXT;
  return gpu_driver_opened()->cuMemcpyPeerAsync(address(t->to), to, address(t->from), from,
                                                t->bytes, stream);
}

// The stream's context must be current.
static CUresult enqueue(const transfer *t, CUstream stream)
{
  const gpu_driver *driver = gpu_driver_opened();
  if (t->from == NULL)
    return driver->cuMemsetD8Async(address(t->to), 0, t->bytes, stream);
  switch (direction_of(t->to_place, t->from_place)) {
  case GPU_COPY_TO_DEVICE:
    return driver->cuMemcpyHtoDAsync_v2(address(t->to), t->from, t->bytes, stream);
  case GPU_COPY_TO_HOST:
    return driver->cuMemcpyDtoHAsync_v2(t->to, address(t->from), t->bytes, stream);
  case GPU_COPY_ON_DEVICE:
    return driver->cuMemcpyDtoDAsync_v2(address(t->to), address(t->from), t->bytes, stream);
  default:
    return copy_between(t, stream);
  }
}

static void count(const transfer *t)
{
  gpu_direction direction = direction_of(t->to_place, t->from_place);
  if (t->from == NULL)
    return; // zeros do not count as a copy
  if (NEREID_GpuCopied != NULL)
    NEREID_GpuCopied(direction, t->bytes);
  else
    gpu_copy_add(direction, t->bytes);
}

// Copies at once if no device is involved.
static bool copy_on_host(const transfer *t)
{
  if (t->bytes == 0)
    return true;
  if (is_device(t->to_place) || is_device(t->from_place))
    return false;
  memmove(t->to, t->from, t->bytes);
  return true;
}

static error *copy_error(int device, CUresult code, const char *what)
{
  return gpu_error_on(device, code, "%s: failed to perform CUDA copy", what);
}

static error *refuse(error *e, const char *what)
{
  return e != NULL ? error_wrap(e, "%s: failed to perform CUDA copy", what) : NULL;
}

static error *lost_error(gpu_place place)
{
  return is_device(place) ? gpu_health_lost_error(place.device) : NULL;
}

// Refuses when either end is on a lost device.
static error *check_ends(const transfer *t, const char *what)
{
  error *e = lost_error(t->to_place);
  return refuse(e != NULL ? e : lost_error(t->from_place), what);
}

error *gpu_copy(void *to, gpu_place to_place, const void *from, gpu_place from_place, size_t bytes,
                gpu_stream *stream, const char *what, bool *done)
{
  transfer t = {to, to_place, from, from_place, bytes};
  *done = copy_on_host(&t);
  if (*done)
    return NULL;
  assert((is_device(to_place) && to_place.device == stream->device) ||
         (is_device(from_place) && from_place.device == stream->device));
  CUcontext before;
  RETURN_IF_ERROR(check_ends(&t, what));
  RETURN_IF_ERROR(refuse(gpu_context_visit(stream->device, &before), what));
  CUresult code = enqueue(&t, stream->handle);
  gpu_context_leave(before);
  if (code == CUDA_SUCCESS)
    count(&t);
  return copy_error(stream->device, code, what);
}

// A thread without a stream may not hold the device either. The copy holds it, because other
// holders may release it meanwhile.
static error *hold_place(gpu_place place, bool *is_held)
{
  *is_held = false;
  if (!is_device(place))
    return NULL;
  RETURN_IF_ERROR(gpu_context_hold(place.device));
  *is_held = true;
  return NULL;
}

// Uses the lane's pinned memory if there is any: with pageable memory the driver would wait, and
// might never return.
static CUresult begin_part(const transfer *part, const gpu_lane *lane)
{
  transfer t = *part;
  if (lane->staging != NULL && part->from_place.kind == GPU_MEMORY_HOST)
    t.from = memcpy(lane->staging, part->from, part->bytes);
  else if (lane->staging != NULL && part->to_place.kind == GPU_MEMORY_HOST)
    t.to = lane->staging;
  return enqueue(&t, lane->stream);
}

static CUresult end_part(const transfer *part, const gpu_lane *lane, int device, int peer)
{
  CUresult code = gpu_stream_poll(device, peer, lane->stream);
  if (code == CUDA_SUCCESS && lane->staging != NULL && part->to_place.kind == GPU_MEMORY_HOST)
    memcpy(part->to, lane->staging, part->bytes);
  return code;
}

static transfer part_of(const transfer *t, size_t offset, size_t most)
{
  transfer part = *t;
  part.to = (char *)t->to + offset;
  part.from = t->from == NULL ? NULL : (const char *)t->from + offset;
  part.bytes = t->bytes - offset < most ? t->bytes - offset : most;
  return part;
}

typedef struct lanes {
  int device, peer;         // peer: the other device; `device` where there is none
  size_t count, part_bytes; // bytes of each part
  gpu_lane *of[2];          // two: one is filled while the other is copied
} lanes;

static CUresult take_lane(lanes *l, bool staged)
{
  gpu_lane *lane;
  void *memory;
  CUresult code = gpu_context_take_lane(l->device, &lane);
  if (code != CUDA_SUCCESS)
    return code;
  l->of[l->count++] = lane;
  if (!staged || lane->staging != NULL)
    return CUDA_SUCCESS;
  // Without it the driver copies directly; if the context is dead, the copy reports that.
  if (gpu_driver_opened()->cuMemHostAlloc(&memory, STAGING_BYTES, 0) == CUDA_SUCCESS)
    lane->staging = memory;
  return CUDA_SUCCESS;
}

static CUresult copy_by(const lanes *l, const transfer *t)
{
  CUresult code = CUDA_SUCCESS;
  for (size_t begun = 0, ended = 0; code == CUDA_SUCCESS && ended < t->bytes;) {
    bool begins = begun < t->bytes && begun - ended < l->count * l->part_bytes;
    size_t offset = begins ? begun : ended;
    const transfer part = part_of(t, offset, l->part_bytes);
    const gpu_lane *lane = l->of[offset / l->part_bytes % l->count];
    code = begins ? begin_part(&part, lane) : end_part(&part, lane, l->device, l->peer);
    *(begins ? &begun : &ended) += part.bytes;
  }
  return code;
}

// After a failure a copy may still run. Lanes of a device that has gone are given up.
static void give_lanes(const lanes *l, bool idle)
{
  for (size_t i = 0; i < l->count; i++) {
    bool ends =
        idle || (!gpu_health_is_gone(l->device) && !gpu_health_is_gone(l->peer) &&
                 gpu_stream_poll(l->device, l->peer, l->of[i]->stream) != CUDA_ERROR_NOT_READY);
    gpu_context_give_lane(l->device, l->of[i], ends);
  }
}

static CUresult copy_inside(const transfer *t, int device)
{
  bool staged = t->to_place.kind == GPU_MEMORY_HOST || t->from_place.kind == GPU_MEMORY_HOST;
  lanes l = {.device = device,
             .peer = is_device(t->from_place) ? t->from_place.device : device,
             .part_bytes = staged ? STAGING_BYTES : t->bytes};
  CUresult code = take_lane(&l, staged);
  if (code == CUDA_SUCCESS && t->bytes > l.part_bytes)
    take_lane(&l, staged); // one lane is enough
  if (code == CUDA_SUCCESS)
    code = copy_by(&l, t);
  give_lanes(&l, code == CUDA_SUCCESS);
  return code;
}

static error *copy_now(const transfer *t, const char *what)
{
  int device = is_device(t->to_place) ? t->to_place.device : t->from_place.device;
  CUcontext before;
  RETURN_IF_ERROR(refuse(gpu_context_visit(device, &before), what));
  CUresult code = copy_inside(t, device);
  gpu_context_leave(before);
  if (code == CUDA_ERROR_NOT_READY)
    return check_ends(t, what);
  if (code == CUDA_SUCCESS)
    count(t);
  return copy_error(device, code, what);
}

error *gpu_copy_now(void *to, gpu_place to_place, const void *from, gpu_place from_place,
                    size_t bytes, const char *what)
{
  transfer t = {to, to_place, from, from_place, bytes};
  if (copy_on_host(&t))
    return NULL;
  bool holds_to = false, holds_from = false;
  RETURN_IF_ERROR(check_ends(&t, what));
  error *e = hold_place(to_place, &holds_to);
  if (e == NULL)
    e = hold_place(from_place, &holds_from);
  if (e == NULL)
    e = copy_now(&t, what);
  else
    e = error_wrap(e, "%s", what);
  if (holds_from)
    gpu_context_release(from_place.device);
  if (holds_to)
    gpu_context_release(to_place.device);
  return e;
}

error *gpu_clear_now(void *to, gpu_place place, size_t bytes, const char *what)
{
  if (is_device(place))
    return gpu_copy_now(to, place, NULL, place, bytes, what);
  memset(to, 0, bytes);
  return NULL;
}

error *gpu_fill(void *to, int device, unsigned char value, size_t bytes, gpu_stream *stream)
{
  assert(device == stream->device);
  if (bytes == 0)
    return NULL;
  CUcontext before;
  RETURN_IF_ERROR(gpu_health_lost_error(device));
  RETURN_IF_ERROR(gpu_context_visit(device, &before));
  CUresult code = gpu_driver_opened()->cuMemsetD8Async(address(to), value, bytes, stream->handle);
  gpu_context_leave(before);
  return gpu_error_on(device, code, "GPU %d: %zu bytes cannot be filled", device, bytes);
}
