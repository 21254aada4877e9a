// SPDX-License-Identifier: Apache-2.0
// One region of a client's memory, of either kind: what shared_memory.c (the registry) asks of
// system_region.c and cuda_region.c. Opened and closed by one thread, outside of the registry's
// lock; in between only what the lock guards changes.
#ifndef NEREID_FRONTEND_COMMON_TENSOR_SHARED_REGION_H
#define NEREID_FRONTEND_COMMON_TENSOR_SHARED_REGION_H

#include "base/error.h"
#include "frontend/common/tensor/memory_guard.h"
#include "gpu/device.h"
#include "gpu/ipc.h"
#include "triton/core/tritonserver.h"

typedef enum region_state {
  REGION_OPENING, // its name is taken; nobody finds it
  REGION_OPEN,
  REGION_LEAVING, // found, and goes with its last user
  REGION_GONE,    // not in the registry
} region_state;

typedef struct shared_region {
  struct shared_memory *memory;
  char *name;
  TRITONSERVER_MemoryType kind; // CPU or GPU
  uint64_t byte_size;
  uint64_t room; // bytes that might be registered when its name was taken
  void *base;    // its first byte

  // of the system's memory
  char *key;
  uint64_t offset;
  void *pages;          // what is mapped: the pages that it is in
  size_t pages_size;    // bytes
  guarded_range *guard; // of the pages; NULL: nothing is mapped

  // of a GPU's
  unsigned char handle[sizeof(CUipcMemHandle)];
  int64_t device;
  gpu_mapping mapping; // base NULL: not open

  // guarded by the registry's lock
  region_state state;
  size_t users;
  bool counted;               // in the registry's bytes
  struct shared_region *next; // in the registry's list of those to be closed
} shared_region;

// Fills in `base`; what fails leaves nothing open. The errors are those of registering.
error *system_region_open(shared_region *r);
error *cuda_region_open(shared_region *r);

void system_region_close(shared_region *r); // of one that is not open: nothing
error *cuda_region_close(shared_region *r); // INTERNAL; the region is closed all the same

error *cuda_region_read(const shared_region *r, const void *from, void *to, size_t size);

// INVALID_ARG in Triton's words where there is no GPU, and why, for who registers `name`.
error *cuda_region_find_gpus(const char *name, const gpu_devices **devices);

// UNAVAILABLE.
static inline error *shared_region_check_room(const shared_region *r, uint64_t room)
{
  return r->byte_size <= room ? NULL
                              : error_new(ERROR_UNAVAILABLE,
                                          "failed to register shared memory region '%s': too many "
                                          "bytes are registered",
                                          r->name);
}

#endif
