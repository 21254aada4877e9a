// SPDX-License-Identifier: Apache-2.0
// A device's queue of work, and points in it. One thread at a time uses a stream; any thread may
// wait for an event.
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

// `priority`: 0 is normal, 1 higher, -1 lower, as far as the device has priorities. Holds the
// device's context. Does not synchronise with the legacy default stream.
error *gpu_stream_new(int device, int priority, gpu_stream **stream);
void gpu_stream_free(gpu_stream *stream); // waits for its work; NULL is allowed
error *gpu_stream_synchronize(gpu_stream *stream);
// Waits as gpu_event_wait for all work in the stream, whose device's context must be current.
// CUDA_ERROR_NOT_READY: the device has gone, or `peer` has, the other device of a copy (else
// `device`).
CUresult gpu_stream_poll(int device, int peer, CUstream stream);

typedef struct gpu_event {
  int device;
  CUevent handle;
} gpu_event;

error *gpu_event_new(int device, gpu_event **event);
void gpu_event_free(gpu_event *event); // NULL is allowed
error *gpu_event_record(gpu_event *event, gpu_stream *stream);
error *gpu_event_query(gpu_event *event, bool *done);
// Polls for 50 us, then sleeps between polls, until the event or `timeout_us` (negative: for ever).
// *done false: time is up. A fault of the device is an error. The wait also ends when the device
// has gone.
error *gpu_event_wait(gpu_event *event, int64_t timeout_us, bool *done);
// Makes later work on `stream` wait for the event.
error *gpu_stream_await(gpu_stream *stream, gpu_event *event);

#endif
