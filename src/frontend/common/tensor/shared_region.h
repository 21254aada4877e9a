// SPDX-License-Identifier: Apache-2.0
// One region of a client's memory, of either kind: the interface of system_region.c and
// cuda_region.c to the registry (shared_memory.c). One thread opens a region and one closes it,
// both without the registry's lock; in between only the fields that the lock guards change.
#ifndef NEREID_FRONTEND_COMMON_TENSOR_SHARED_REGION_H
#define NEREID_FRONTEND_COMMON_TENSOR_SHARED_REGION_H

#include "base/error.h"
#include "frontend/common/tensor/memory_guard.h"
#include "gpu/device.h"
#include "gpu/ipc.h"
#include "triton/core/tritonserver.h"

typedef enum region_state {
  REGION_OPENING, // has a name, cannot be found yet
  REGION_OPEN,
  REGION_LEAVING, // unregistered; can be found until its last user leaves
  REGION_GONE,    // not in the registry
} region_state;

typedef struct shared_region {
  struct shared_memory *memory;
  char *name;
  TRITONSERVER_MemoryType kind; // CPU or GPU
  uint64_t byte_size;
  uint64_t room; // bytes that were free in the registry when the name was taken
  void *base;    // its first byte

  // --- of system memory
  char *key;
  uint64_t offset;
  void *pages;          // the mapped pages that contain it
  size_t pages_size;    // bytes
  guarded_range *guard; // of the pages; NULL: not mapped

  // --- of GPU memory
  unsigned char handle[sizeof(CUipcMemHandle)];
  int64_t device;
  gpu_mapping mapping; // base NULL: not open

  // --- guarded by the registry's lock
  region_state state;
  size_t users;
  bool counted;               // its bytes are part of the registry's sum
  struct shared_region *next; // in the registry's list of regions to close
} shared_region;

// Fills in `base`; a failure leaves nothing open. Errors are those of registering.
error *system_region_open(shared_region *r);
error *cuda_region_open(shared_region *r);

void system_region_close(shared_region *r); // nothing, if it is not open
error *cuda_region_close(shared_region *r); // INTERNAL; the region counts as closed nevertheless

error *cuda_region_read(const shared_region *r, const void *from, void *to, size_t size);

// For a client that registers `name`: INVALID_ARG with Triton's words and the reason, when there is
// no GPU.
error *cuda_region_find_gpus(const char *name, const gpu_devices **devices);

// UNAVAILABLE when the region has more than `room` bytes.
static inline error *shared_region_check_room(const shared_region *r, uint64_t room)
{
  return r->byte_size <= room ? NULL
                              : error_new(ERROR_UNAVAILABLE,
                                          "failed to register shared memory region '%s': too many "
                                          "bytes are registered",
                                          r->name);
}

#endif
