// One mapped POSIX shared memory object: what the kernel does for the registry (shared_memory.h).
// A value; its owner unmaps it.
#ifndef NEREID_FRONTEND_COMMON_TENSOR_SHARED_MAPPING_H
#define NEREID_FRONTEND_COMMON_TENSOR_SHARED_MAPPING_H

#include "base/error.h"
#include "frontend/common/tensor/memory_guard.h"

#include <stddef.h>
#include <stdint.h>

typedef struct shared_mapping {
  void *base;           // the first byte of the region
  void *pages;          // what is mapped: the pages that the region is in
  size_t pages_size;    // bytes
  guarded_range *guard; // of the pages
} shared_mapping;

// `name` is the region's, for errors; `room` is how many bytes there may be. As
// shared_memory_register_system.
error *shared_mapping_open(const char *name, const char *key, uint64_t offset, uint64_t byte_size,
                           uint64_t room, shared_mapping *mapping);
void shared_mapping_close(shared_mapping *mapping);

#endif
