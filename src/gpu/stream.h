// SPDX-License-Identifier: Apache-2.0
// A device's queue of work, and points in it. A stream is used by one thread at a time; an event
// may be waited for on any thread.
#ifndef NEREID_GPU_STREAM_H
#define NEREID_GPU_STREAM_H

#include "base/error.h"
#include "gpu/cuda.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct gpu_stream {
  int device;
  CUstream handle;
} gpu_stream;

// `priority`: 0 as usual, 1 above, -1 below, as far as the device has such. Holds the device's
// context. Does not synchronise with the legacy default stream.
error *gpu_stream_new(int device, int priority, gpu_stream **stream);
void gpu_stream_free(gpu_stream *stream); // waits for what is in it; NULL is allowed
error *gpu_stream_synchronize(gpu_stream *stream);
// Waits as gpu_event_wait does, for all that is in the stream, whose device's context is current.
// CUDA_ERROR_NOT_READY: the device has gone, or `peer`, which it copies from or to (else itself).
CUresult gpu_stream_poll(int device, int peer, CUstream stream);

typedef struct gpu_event {
  int device;
  CUevent handle;
} gpu_event;

error *gpu_event_new(int device, gpu_event **event);
void gpu_event_free(gpu_event *event); // NULL is allowed
error *gpu_event_record(gpu_event *event, gpu_stream *stream);
error *gpu_event_query(gpu_event *event, bool *done);
// Asks for 50 us, then sleeps in between, until the event or `timeout_us` (negative: for ever).
// *done false: the time was over. A fault of the device is an error; that it has gone ends the
// wait.
error *gpu_event_wait(gpu_event *event, int64_t timeout_us, bool *done);
// What is enqueued on `stream` from now on comes after the event.
error *gpu_stream_await(gpu_stream *stream, gpu_event *event);

#endif
