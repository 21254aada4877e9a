// SPDX-License-Identifier: Apache-2.0
// The response cache of a server: one library behind tritoncache.h, opened at the start and closed
// after the last model is gone. Its functions are called from any thread.
#ifndef NEREID_CORE_CACHE_H
#define NEREID_CORE_CACHE_H

#include "base/error.h"
#include "core/cache_lookups.h"
#include "triton/core/tritoncache.h"

#define SECRET_BYTES 16

typedef struct response_cache response_cache;

// Opens <dir>/<name>/libtritoncache_<name>.so and hands it its configuration as it is. INVALID_ARG
// when there is no such file; else the library's error. `look_up` is for look-ups that wait.
error *response_cache_open(const char *dir, const char *name, const char *config,
                           cache_lookup *look_up, response_cache **cache);
void response_cache_close(response_cache *cache); // NULL is allowed; nobody uses it any more

// Call the library's TRITONCACHE_CacheLookup and TRITONCACHE_CacheInsert.
error *response_cache_look_up(response_cache *cache, const char *key, TRITONCACHE_CacheEntry *entry,
                              TRITONCACHE_Allocator *allocator);
error *response_cache_insert(response_cache *cache, const char *key, TRITONCACHE_CacheEntry *entry,
                             TRITONCACHE_Allocator *allocator);

// The secret for keys (SECRET_BYTES), where entries never leave the process; else NULL.
const uint8_t *response_cache_secret(const response_cache *cache);

// The threads for look-ups that may wait; NULL: the calling thread looks up.
cache_lookups *response_cache_lookups(const response_cache *cache);

#endif
