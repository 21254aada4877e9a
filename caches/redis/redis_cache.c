// SPDX-License-Identifier: Apache-2.0
// libtritoncache_redis.so: the entry points. Any thread; Finalize runs when no other call does.
#include "backend_error.h"
#include "caches/cache_extension.h"
#include "caches/common/cache_common.h"
#include "caches/redis/redis_store.h"

static redis_store *store_of(TRITONCACHE_Cache *cache)
{
  return (redis_store *)cache;
}

TRITONSERVER_Error *TRITONCACHE_CacheInitialize(TRITONCACHE_Cache **cache, const char *config)
{
  redis_settings settings;
  redis_store *store;
  if (cache == NULL || config == NULL)
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG,
                                 cache == NULL ? "cache was nullptr" : "cache config was nullptr");
  TRITONSERVER_Error *e = redis_settings_read(config, &settings);
  if (e != NULL) {
    redis_settings_fini(&settings);
    return e;
  }
  BACKEND_RETURN_IF_ERROR(redis_store_new(&settings, &store));
  *cache = (TRITONCACHE_Cache *)store;
  return NULL;
}

TRITONSERVER_Error *TRITONCACHE_CacheFinalize(TRITONCACHE_Cache *cache)
{
  if (cache == NULL)
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, "cache was nullptr");
  redis_store_free(store_of(cache));
  return NULL;
}

unsigned NEREID_CacheLookupThreads(TRITONCACHE_Cache *cache)
{
  return redis_store_links(store_of(cache));
}

static TRITONSERVER_Error *lend(const slice *buffers, size_t count, TRITONCACHE_CacheEntry *entry)
{
  TRITONSERVER_BufferAttributes *attributes;
  BACKEND_RETURN_IF_ERROR(TRITONSERVER_BufferAttributesNew(&attributes));
  TRITONSERVER_Error *e =
      TRITONSERVER_BufferAttributesSetMemoryType(attributes, TRITONSERVER_MEMORY_CPU);
  for (size_t i = 0; e == NULL && i < count; i++) {
    e = TRITONSERVER_BufferAttributesSetByteSize(attributes, buffers[i].size);
    if (e == NULL)
      e = TRITONCACHE_CacheEntryAddBuffer(entry, (void *)buffers[i].data, attributes);
  }
  TRITONSERVER_ErrorDelete(TRITONSERVER_BufferAttributesDelete(attributes));
  return e;
}

static TRITONSERVER_Error *look_up(redis_store *store, const char *key, redis_reply *reply,
                                   TRITONCACHE_CacheEntry *entry, TRITONCACHE_Allocator *allocator)
{
  slice buffers[MOST_BUFFERS];
  size_t count;
  if (!redis_store_get(store, key, reply))
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_NOT_FOUND, "Redis has no answer");
  if (reply->kind == REPLY_LIST && reply->count == 0)
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_NOT_FOUND, "did not find entry");
  if (!redis_entry_read(reply, buffers, &count))
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL,
                                 "Error: encountered incomplete cache result.");
  BACKEND_RETURN_IF_ERROR(lend(buffers, count, entry));
  return TRITONCACHE_Copy(allocator, entry);
}

TRITONSERVER_Error *TRITONCACHE_CacheLookup(TRITONCACHE_Cache *cache, const char *key,
                                            TRITONCACHE_CacheEntry *entry,
                                            TRITONCACHE_Allocator *allocator)
{
  redis_reply reply = {0};
  BACKEND_RETURN_IF_ERROR(cache_check(cache, key, entry, allocator));
  TRITONSERVER_Error *e = look_up(store_of(cache), key, &reply, entry, allocator);
  redis_reply_fini(&reply);
  return e;
}

// Copies the server's answer; the store's thread writes the copy, so no request waits for Redis.
TRITONSERVER_Error *TRITONCACHE_CacheInsert(TRITONCACHE_Cache *cache, const char *key,
                                            TRITONCACHE_CacheEntry *entry,
                                            TRITONCACHE_Allocator *allocator)
{
  redis_write *write;
  BACKEND_RETURN_IF_ERROR(cache_check(cache, key, entry, allocator));
  if (!redis_store_takes(store_of(cache)))
    return NULL;
  BACKEND_RETURN_IF_ERROR(redis_write_new(key, entry, allocator, &write));
  redis_store_put(store_of(cache), write);
  return NULL;
}
