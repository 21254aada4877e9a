// SPDX-License-Identifier: Apache-2.0
// Device memory shared between processes: by CUDA's 64-byte handles, and by file descriptors of
// virtual memory. May take milliseconds: do not call it on threads that serve connections, nor with
// a lock held.
#ifndef NEREID_GPU_IPC_H
#define NEREID_GPU_IPC_H

#include "base/error.h"
#include "gpu/cuda.h"

#include <stddef.h>
#include <stdint.h>

// ---- handles: memory of another process that sees the same process ids ----

typedef struct gpu_mapping {
  int device;
  void *base;
  size_t bytes; // of the whole allocation
} gpu_mapping;

// Maps the memory of the handle and holds the device's context. The error says why if that is
// known: the memory is this process's own, its process has gone or is in another PID namespace, it
// is on another device, or the platform does not support it. gpu_ipc_close unmaps it; INTERNAL
// "failed to close CUDA IPC handle: <text>".
error *gpu_ipc_open(int device, const unsigned char handle[64], gpu_mapping *mapping);
error *gpu_ipc_close(gpu_mapping *mapping);
// The handle of the allocation that contains `memory`, and the offset in it.
error *gpu_ipc_export(int device, const void *memory, unsigned char handle[64], size_t *offset);

// ---- regions: virtual memory, growing, by file descriptors ----

// Reserved addresses, filled with memory piece by piece from the front.
typedef struct gpu_region gpu_region;

// UNSUPPORTED where the device or its driver has no virtual memory.
error *gpu_region_new(int device, size_t reserved_bytes, gpu_region **region);
void gpu_region_free(gpu_region *region); // NULL is allowed
void *gpu_region_base(const gpu_region *region);
size_t gpu_region_bytes(const gpu_region *region); // filled so far
// Fills up to at least `bytes`, in multiples of the device's granularity. Existing memory stays.
// Each piece can be exported: the caller owns *fd, the new piece's (NULL: not wanted); *added is
// its size.
error *gpu_region_grow(gpu_region *region, size_t bytes, int *fd, size_t *added);
// For the other process: appends the piece behind the descriptor, which the caller keeps.
error *gpu_region_import(gpu_region *region, int fd, size_t bytes);

#endif
