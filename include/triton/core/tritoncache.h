// SPDX-License-Identifier: Apache-2.0
// The interface between the server and response caches: what a libtritoncache_NAME.so
// implements and may call. Binary compatible with Triton Inference Server's cache API of the
// version below. The rules of tritonserver.h hold.
#pragma once

#include "triton/core/tritonserver.h"

#if defined(__GNUC__)
#define TRITONCACHE_DECLSPEC __attribute__((visibility("default")))
#define TRITONCACHE_ISPEC    __attribute__((visibility("default")))
#else
#define TRITONCACHE_DECLSPEC
#define TRITONCACHE_ISPEC
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define TRITONCACHE_API_VERSION_MAJOR 0
#define TRITONCACHE_API_VERSION_MINOR 1

typedef struct TRITONCACHE_Cache TRITONCACHE_Cache;
typedef struct TRITONCACHE_CacheEntry TRITONCACHE_CacheEntry;
typedef struct TRITONCACHE_Allocator TRITONCACHE_Allocator;

/// The version that the server implements.
TRITONCACHE_DECLSPEC TRITONSERVER_Error *TRITONCACHE_ApiVersion(uint32_t *major, uint32_t *minor);

// --- Cache entries: the buffers of one cached response, lent to the cache for one call

/// How many buffers the entry has.
TRITONCACHE_DECLSPEC TRITONSERVER_Error *
TRITONCACHE_CacheEntryBufferCount(TRITONCACHE_CacheEntry *entry, size_t *count);

/// Adds a buffer, for the answer to a lookup. The memory stays the cache's; the attributes are
/// copied.
TRITONCACHE_DECLSPEC TRITONSERVER_Error *
TRITONCACHE_CacheEntryAddBuffer(TRITONCACHE_CacheEntry *entry, void *base,
                                TRITONSERVER_BufferAttributes *buffer_attributes);

/// Buffer `index` and, copied into `buffer_attributes`, its attributes. INVALID_ARG when
/// `index` is out of range.
TRITONCACHE_DECLSPEC TRITONSERVER_Error *
TRITONCACHE_CacheEntryGetBuffer(TRITONCACHE_CacheEntry *entry, size_t index, void **base,
                                TRITONSERVER_BufferAttributes *buffer_attributes);

/// Replaces buffer `index` by the cache's own memory, which TRITONCACHE_Copy then fills.
/// `buffer_attributes` may be NULL to keep them.
TRITONCACHE_DECLSPEC TRITONSERVER_Error *
TRITONCACHE_CacheEntrySetBuffer(TRITONCACHE_CacheEntry *entry, size_t index, void *new_base,
                                TRITONSERVER_BufferAttributes *buffer_attributes);

/// Lets the server copy: on insertion from the response into the entry's buffers, on lookup
/// from them into the response.
TRITONCACHE_DECLSPEC TRITONSERVER_Error *TRITONCACHE_Copy(TRITONCACHE_Allocator *allocator,
                                                          TRITONCACHE_CacheEntry *entry);

// --- Entry points: a cache's library defines all of these, the server calls them, also from
// --- several threads at once.

/// Called once; `config` is the cache's configuration as JSON. Stores what it needs in
/// `*cache`.
TRITONCACHE_ISPEC TRITONSERVER_Error *TRITONCACHE_CacheInitialize(TRITONCACHE_Cache **cache,
                                                                  const char *config);

/// Called once, at the end.
TRITONCACHE_ISPEC TRITONSERVER_Error *TRITONCACHE_CacheFinalize(TRITONCACHE_Cache *cache);

/// Stores `entry` under `key`: allocates memory, sets it as the entry's buffers and calls
/// TRITONCACHE_Copy. ALREADY_EXISTS when the key is known.
TRITONCACHE_ISPEC TRITONSERVER_Error *TRITONCACHE_CacheInsert(TRITONCACHE_Cache *cache,
                                                              const char *key,
                                                              TRITONCACHE_CacheEntry *entry,
                                                              TRITONCACHE_Allocator *allocator);

/// Adds the buffers stored under `key` to `entry` and calls TRITONCACHE_Copy. NOT_FOUND when
/// there are none.
TRITONCACHE_ISPEC TRITONSERVER_Error *TRITONCACHE_CacheLookup(TRITONCACHE_Cache *cache,
                                                              const char *key,
                                                              TRITONCACHE_CacheEntry *entry,
                                                              TRITONCACHE_Allocator *allocator);

#ifdef __cplusplus
}
#endif
