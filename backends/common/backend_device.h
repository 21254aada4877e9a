// SPDX-License-Identifier: Apache-2.0
// What an instance of KIND_GPU has on its device: a stream, and memory for copies. The memory comes
// from the server's pools (TRITONBACKEND_MemoryManagerAllocate) and is given back after each
// execution. Works with any server that has the ABI. Made and freed on load threads, used on the
// instance's thread.
#ifndef NEREID_BACKEND_DEVICE_H
#define NEREID_BACKEND_DEVICE_H

#include "gpu/copy.h"
#include "gpu/pool.h"
#include "triton/core/tritonbackend.h"

#include <stdbool.h>

typedef struct backend_device {
  int ordinal;
  gpu_stream *stream;
  TRITONBACKEND_MemoryManager *manager;
  gpu_pool *spare; // our own memory, for when the server's pool has no room; mostly NULL
  bool no_pools;   // the server has none, as in a model's own process
} backend_device;

// `*device` is NULL for an instance of another kind. Opens the driver and makes the device's
// context, which may take a second.
TRITONSERVER_Error *backend_device_new(TRITONBACKEND_ModelInstance *instance,
                                       backend_device **device);
void backend_device_free(backend_device *device); // waits for its stream; NULL is allowed

static inline gpu_place backend_device_place(const backend_device *self)
{
  return (gpu_place){.kind = GPU_MEMORY_DEVICE, .device = self->ordinal};
}

typedef struct backend_block {
  void *memory; // NULL: there is none
  gpu_memory_kind kind;
  bool is_spare;
} backend_block;

// Memory of the device. When the server's pool has no room, the memory is our own: the driver
// allocates it once and it is kept. A warning says so, unless the server has no pools. UNAVAILABLE
// when the device has no memory left.
TRITONSERVER_Error *backend_device_take(backend_device *self, size_t bytes, backend_block *block);
// Pinned memory; its `memory` is NULL when the server has none.
backend_block backend_device_take_pinned(backend_device *self, size_t bytes);
// The stream must have finished with it.
void backend_device_give_back(backend_device *self, const backend_block *block);

// Whether the device has failed (a dead context, a lost device) and why, for
// NEREID_ModelInstanceFault. `self` may be NULL: an instance on the CPU never has this fault.
bool backend_device_fault(const backend_device *self, char *text, size_t size);

#endif
