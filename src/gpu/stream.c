// SPDX-License-Identifier: Apache-2.0
// Streams and events. One thread at a time uses a stream; any thread an event.
#include "gpu/stream.h"

#include "base/clock.h"
#include "gpu/context.h"
#include "gpu/health.h"

#include <assert.h>
#include <stdlib.h>

#define SPIN_NS      UINT64_C(50000)
#define LEAST_NAP_NS UINT64_C(20000)
#define MOST_NAP_NS  UINT64_C(1000000)

static int driver_priority(const gpu_driver *driver, int priority)
{
  int least = 0, greatest = 0;
  if (priority == 0 || driver->cuCtxGetStreamPriorityRange(&least, &greatest) != CUDA_SUCCESS)
    return 0;
  return priority > 0 ? greatest : least; // smaller numbers have priority
}

static error *open_stream(gpu_stream *s, int priority)
{
  const gpu_driver *driver = gpu_driver_opened();
  CUcontext before;
  RETURN_IF_ERROR(gpu_context_visit(s->device, &before));
  CUresult code = driver->cuStreamCreateWithPriority(&s->handle, CU_STREAM_NON_BLOCKING,
                                                     driver_priority(driver, priority));
  gpu_context_leave(before);
  return gpu_error_on(s->device, code, "GPU %d: no stream", s->device);
}

error *gpu_stream_new(int device, int priority, gpu_stream **stream)
{
  RETURN_IF_ERROR(gpu_context_hold(device));
  gpu_stream *s = calloc(1, sizeof(*s));
  error *e = s == NULL ? error_no_memory() : NULL;
  if (e == NULL) {
    s->device = device;
    e = open_stream(s, priority);
  }
  if (e != NULL) {
    free(s);
    gpu_context_release(device);
    return e;
  }
  *stream = s;
  return NULL;
}

void gpu_stream_free(gpu_stream *stream)
{
  if (stream == NULL)
    return;
  const gpu_driver *driver = gpu_driver_opened();
  CUcontext before;
  AUTO_ERROR error *e = gpu_context_visit(stream->device, &before);
  if (e == NULL) {
    CUresult code = gpu_stream_poll(stream->device, stream->device, stream->handle);
    gpu_health_tell(stream->device, code);
    if (code != CUDA_ERROR_NOT_READY)
      gpu_health_tell(stream->device, driver->cuStreamDestroy_v2(stream->handle));
    gpu_context_leave(before);
  }
  gpu_context_release(stream->device);
  free(stream);
}

error *gpu_stream_synchronize(gpu_stream *stream)
{
  CUcontext before;
  if (gpu_health_is_gone(stream->device)) // the call might never return
    return gpu_health_lost_error(stream->device);
  RETURN_IF_ERROR(gpu_context_visit(stream->device, &before));
  CUresult code = gpu_stream_poll(stream->device, stream->device, stream->handle);
  gpu_context_leave(before);
  if (code == CUDA_ERROR_NOT_READY)
    return gpu_health_lost_error(stream->device);
  return gpu_error_on(stream->device, code, "GPU %d: what its stream did failed", stream->device);
}

static error *open_event(gpu_event *event)
{
  CUcontext before;
  RETURN_IF_ERROR(gpu_context_visit(event->device, &before));
  CUresult code = gpu_driver_opened()->cuEventCreate(&event->handle, CU_EVENT_DISABLE_TIMING |
                                                                         CU_EVENT_BLOCKING_SYNC);
  gpu_context_leave(before);
  return gpu_error_on(event->device, code, "GPU %d: no event", event->device);
}

error *gpu_event_new(int device, gpu_event **event)
{
  RETURN_IF_ERROR(gpu_context_hold(device));
  gpu_event *n = calloc(1, sizeof(*n));
  error *e = n == NULL ? error_no_memory() : NULL;
  if (e == NULL) {
    n->device = device;
    e = open_event(n);
  }
  if (e != NULL) {
    free(n);
    gpu_context_release(device);
    return e;
  }
  *event = n;
  return NULL;
}

void gpu_event_free(gpu_event *event)
{
  if (event == NULL)
    return;
  CUcontext before;
  AUTO_ERROR error *e = gpu_context_visit(event->device, &before);
  if (e == NULL) {
    gpu_health_tell(event->device, gpu_driver_opened()->cuEventDestroy_v2(event->handle));
    gpu_context_leave(before);
  }
  gpu_context_release(event->device);
  free(event);
}

error *gpu_event_record(gpu_event *event, gpu_stream *stream)
{
  assert(event->device == stream->device);
  CUcontext before;
  RETURN_IF_ERROR(gpu_context_visit(event->device, &before));
  CUresult code = gpu_driver_opened()->cuEventRecord(event->handle, stream->handle);
  gpu_context_leave(before);
  return gpu_error_on(event->device, code, "GPU %d: its event was not recorded", event->device);
}

static error *event_error(const gpu_event *event, CUresult code)
{
  return gpu_error_on(event->device, code, "GPU %d: what it was to do failed", event->device);
}

error *gpu_event_query(gpu_event *event, bool *done)
{
  CUcontext before;
  RETURN_IF_ERROR(gpu_context_visit(event->device, &before));
  CUresult code = gpu_driver_opened()->cuEventQuery(event->handle);
  gpu_context_leave(before);
  *done = code == CUDA_SUCCESS;
  return code == CUDA_ERROR_NOT_READY ? NULL : event_error(event, code);
}

// The time to sleep after waiting this long: a small part of it.
static uint64_t nap_ns(uint64_t waited_ns)
{
  uint64_t nap = waited_ns / 16;
  return nap < LEAST_NAP_NS ? LEAST_NAP_NS : nap > MOST_NAP_NS ? MOST_NAP_NS : nap;
}

// Polls until the event, or all of the stream (`event` NULL), is done, `end_ns` has come, or one of
// the devices has gone, which may never answer. Returns the last result. The context of `device`
// must be current.
static CUresult poll(int device, int peer, CUevent event, CUstream stream, uint64_t end_ns)
{
  const gpu_driver *driver = gpu_driver_opened();
  uint64_t start = clock_monotonic_ns();
  for (;;) {
    CUresult code = event != NULL ? driver->cuEventQuery(event) : driver->cuStreamQuery(stream);
    uint64_t now = clock_monotonic_ns();
    if (code != CUDA_ERROR_NOT_READY || now >= end_ns || gpu_health_is_gone(device) ||
        (peer != device && gpu_health_is_gone(peer)))
      return code;
    if (now - start < SPIN_NS)
      continue;
    uint64_t until = now + nap_ns(now - start);
    clock_sleep_until(until < end_ns ? until : end_ns);
  }
}

CUresult gpu_stream_poll(int device, int peer, CUstream stream)
{
  return poll(device, peer, NULL, stream, CLOCK_NEVER);
}

// The end of a wait that begins now.
static uint64_t end_of(int64_t timeout_us)
{
  uint64_t wait, end;
  if (timeout_us < 0 || __builtin_mul_overflow((uint64_t)timeout_us, UINT64_C(1000), &wait) ||
      __builtin_add_overflow(clock_monotonic_ns(), wait, &end))
    return CLOCK_NEVER;
  return end;
}

error *gpu_event_wait(gpu_event *event, int64_t timeout_us, bool *done)
{
  CUcontext before;
  *done = false;
  RETURN_IF_ERROR(gpu_context_visit(event->device, &before));
  CUresult code = poll(event->device, event->device, event->handle, NULL, end_of(timeout_us));
  gpu_context_leave(before);
  *done = code == CUDA_SUCCESS;
  if (code == CUDA_ERROR_NOT_READY)
    return gpu_health_is_gone(event->device) ? gpu_health_lost_error(event->device) : NULL;
  return event_error(event, code);
}

error *gpu_stream_await(gpu_stream *stream, gpu_event *event)
{
  CUcontext before;
  RETURN_IF_ERROR(gpu_context_visit(stream->device, &before));
  CUresult code = gpu_driver_opened()->cuStreamWaitEvent(stream->handle, event->handle, 0);
  gpu_context_leave(before);
  return gpu_error_on(stream->device, code, "GPU %d: its stream cannot await an event",
                      stream->device);
}
