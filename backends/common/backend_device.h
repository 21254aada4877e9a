// SPDX-License-Identifier: Apache-2.0
// What an instance of KIND_GPU has of its device: a stream, and memory that copies pass through,
// which is the server's (its pools, by TRITONBACKEND_MemoryManagerAllocate) and given back after
// each execution. Any server that has the ABI will do. Made and freed on load threads, used on the
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
  gpu_pool *spare; // memory of our own, for what the server's pool had no room for; mostly NULL
  bool no_pools;   // the server has none: that of a model's own process
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

// Memory of the device. Where the server's pool has no room it is our own, which the driver is
// asked for once and which is kept: a warning says so, but where there are no pools. UNAVAILABLE
// when the device has none.
TRITONSERVER_Error *backend_device_take(backend_device *self, size_t bytes, backend_block *block);
// Pinned memory; NULL when the server has none to give.
backend_block backend_device_take_pinned(backend_device *self, size_t bytes);
// The stream must be through with it.
void backend_device_give_back(backend_device *self, const backend_block *block);

// Whether the device does not work (a dead context, a lost device) and why, for
// NEREID_ModelInstanceFault. `self` may be NULL: an instance on CPUs has no such fault.
bool backend_device_fault(const backend_device *self, char *text, size_t size);

#endif
