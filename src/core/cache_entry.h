// SPDX-License-Identifier: Apache-2.0
// The entry that is lent to a cache for one call, and the response packed into its buffer, in
// Triton's layout (docs/internals/cache.md). Used on the thread that looks up or inserts.
#ifndef NEREID_CORE_CACHE_ENTRY_H
#define NEREID_CORE_CACHE_ENTRY_H

#include "base/error.h"
#include "request/response.h"
#include "triton/core/tritoncache.h"

#define MAX_ENTRY_BUFFERS 8 // a response is one buffer

typedef struct cache_buffer {
  void *base; // NULL: the cache provides it
  size_t size;
} cache_buffer;

typedef struct TRITONCACHE_CacheEntry {
  cache_buffer buffers[MAX_ENTRY_BUFFERS];
  size_t count;
} cache_entry;

// Called by TRITONCACHE_Copy: moves bytes between a response and the entry.
typedef struct TRITONCACHE_Allocator {
  error *(*copy)(struct TRITONCACHE_Allocator *c, const cache_entry *entry);
  response_factory *factory; // of the response that a look-up makes
  response *r;               // the response that was made, or is inserted
} cache_copier;

// Reads into `r`, which has no outputs yet; its client's allocator gives the buffers. Errors:
// INTERNAL for an entry that cannot be read, before anything is allocated; else the allocator's.
error *cache_entry_read(const cache_entry *entry, response *r);
// Writes `r` into the entry's one buffer.
error *cache_entry_write(const response *r, const cache_entry *entry);

// The packed size of the response in bytes. False: it cannot be kept, as an output is not in host
// memory or was never filled, or as its parameters are too many or of type BYTES.
bool cache_entry_size(const response *r, size_t *size);

#endif
