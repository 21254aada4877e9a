// SPDX-License-Identifier: Apache-2.0
// Copies between places: the host, pinned host memory, devices. One function, which knows the rules
// of the driver, and counters of bytes and calls by direction.
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
  int device; // of GPU_MEMORY_DEVICE; else not looked at
} gpu_place;

typedef enum gpu_direction {
  GPU_COPY_TO_DEVICE,
  GPU_COPY_TO_HOST,
  GPU_COPY_ON_DEVICE,
  GPU_COPY_BETWEEN_DEVICES,
  GPU_COPY_DIRECTIONS,
} gpu_direction;

// Enqueues the copy on `stream`, whose device is one of the two; `*done` is false where it must be
// awaited before `from` may change and `to` be read. Two places on the host are copied at once. The
// memory must be complete when the stream gets there. The text names `what`: "<what>: failed to
// perform CUDA copy: <text>".
error *gpu_copy(void *to, gpu_place to_place, const void *from, gpu_place from_place, size_t bytes,
                gpu_stream *stream, const char *what, bool *done);

// The same for a thread that has no stream: copies, and waits, for as long as the device is busy;
// not in the driver, and not for a device that has gone. What is pageable goes by way of pinned
// memory that the layer keeps for each device, with streams.
error *gpu_copy_now(void *to, gpu_place to_place, const void *from, gpu_place from_place,
                    size_t bytes, const char *what);

// The same for zeros.
error *gpu_clear_now(void *to, gpu_place place, size_t bytes, const char *what);

// Not on a device that is lost.
error *gpu_fill(void *to, int device, unsigned char value, size_t bytes, gpu_stream *stream);

typedef struct gpu_copy_counts {
  uint64_t copies[GPU_COPY_DIRECTIONS], bytes[GPU_COPY_DIRECTIONS];
} gpu_copy_counts;
// Of this library's copy of the layer; of the server's: of all copies in its process.
void gpu_copy_count(gpu_copy_counts *counts);
void gpu_copy_add(gpu_direction direction, uint64_t bytes); // for the server: another library's

#endif
