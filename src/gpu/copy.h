// SPDX-License-Identifier: Apache-2.0
// Copies between places: the host, pinned host memory, devices. One function applies the driver's
// rules. Counts bytes and calls by direction.
#ifndef NEREID_GPU_COPY_H
#define NEREID_GPU_COPY_H

#include "gpu/stream.h"

#include <stddef.h>
#include <stdint.h>

typedef enum gpu_memory_kind {
  GPU_MEMORY_HOST,   // TRITONSERVER_MEMORY_CPU
  GPU_MEMORY_PINNED, // TRITONSERVER_MEMORY_CPU_PINNED
  GPU_MEMORY_DEVICE, // TRITONSERVER_MEMORY_GPU
} gpu_memory_kind;   // the values are the ABI's

typedef struct gpu_place {
  gpu_memory_kind kind;
  int device; // for GPU_MEMORY_DEVICE only
} gpu_place;

typedef enum gpu_direction {
  GPU_COPY_TO_DEVICE,
  GPU_COPY_TO_HOST,
  GPU_COPY_ON_DEVICE,
  GPU_COPY_BETWEEN_DEVICES,
  GPU_COPY_DIRECTIONS,
} gpu_direction;

// Enqueues the copy on `stream`, whose device is one of the two. With `*done` false, wait for the
// stream before you change `from` or read `to`. Copies on the host are done at once. The memory
// must be complete when the stream reaches the copy. The error is "<what>: failed to perform CUDA
// copy: <text>".
error *gpu_copy(void *to, gpu_place to_place, const void *from, gpu_place from_place, size_t bytes,
                gpu_stream *stream, const char *what, bool *done);

// The same for a thread without a stream: copies, and waits as long as the device is busy. It does
// not wait in the driver, nor for a device that has gone. Pageable memory is copied through pinned
// memory, which the layer keeps for each device, with streams.
error *gpu_copy_now(void *to, gpu_place to_place, const void *from, gpu_place from_place,
                    size_t bytes, const char *what);

// The same, writing zeros.
error *gpu_clear_now(void *to, gpu_place place, size_t bytes, const char *what);

// Fails for a device that is lost.
error *gpu_fill(void *to, int device, unsigned char value, size_t bytes, gpu_stream *stream);

typedef struct gpu_copy_counts {
  uint64_t copies[GPU_COPY_DIRECTIONS], bytes[GPU_COPY_DIRECTIONS];
} gpu_copy_counts;
// The counts of this library's copy of the layer; in the server, those of the whole process.
void gpu_copy_count(gpu_copy_counts *counts);
// Counts another library's copy, in the server.
void gpu_copy_add(gpu_direction direction, uint64_t bytes);

#endif
