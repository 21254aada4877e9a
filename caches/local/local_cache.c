// SPDX-License-Identifier: Apache-2.0
// libtritoncache_local.so: answers in the memory of this process, up to `size` bytes. Any thread.
// One lock, held only for searches and the list. An entry has a reference while it is copied; an
// evicted entry counts towards the size until its last reader is done.
#include "caches/cache_extension.h"
#include "caches/common/cache_common.h"
#include "caches/local/lru.h"

#include "backend_error.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/refcount.h"
#include "base/string_map.h"
#include "base/text.h"
#include "triton/core/tritoncache.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

const char NEREID_CacheStaysInProcess = 1;

typedef struct local_entry {
  lru_entry known;
  refcount users; // the cache, and threads that copy it
  size_t sizes_count;
  size_t sizes[]; // of the buffers, which follow; then the key
} local_entry;

// The metrics of Triton's local cache, with the same kinds.
typedef enum local_metric {
  METRIC_UTIL,
  METRIC_ENTRIES,
  METRIC_HITS,
  METRIC_MISSES,
  METRIC_LOOKUPS,
  METRIC_EVICTIONS,
  METRIC_LOOKUP_US,
  METRIC_INSERTION_US,
  METRIC_COUNT,
} local_metric;

static const cache_metric_text metric_texts[METRIC_COUNT] = {
    [METRIC_UTIL] = {TRITONSERVER_METRIC_KIND_GAUGE, "nv_cache_util",
                     "Cache utilization [0.0 - 1.0]"},
    [METRIC_ENTRIES] = {TRITONSERVER_METRIC_KIND_GAUGE, "nv_cache_num_entries",
                        "Number of responses stored in response cache"},
    [METRIC_HITS] = {TRITONSERVER_METRIC_KIND_GAUGE, "nv_cache_num_hits",
                     "Number of cache hits in response cache"},
    [METRIC_MISSES] = {TRITONSERVER_METRIC_KIND_GAUGE, "nv_cache_num_misses",
                       "Number of cache misses in response cache"},
    [METRIC_LOOKUPS] = {TRITONSERVER_METRIC_KIND_GAUGE, "nv_cache_num_lookups",
                        "Number of cache lookups in response cache"},
    [METRIC_EVICTIONS] = {TRITONSERVER_METRIC_KIND_GAUGE, "nv_cache_num_evictions",
                          "Number of cache evictions in response cache"},
    [METRIC_LOOKUP_US] = {TRITONSERVER_METRIC_KIND_GAUGE, "nv_cache_lookup_duration",
                          "Total cache lookup duration (hit and miss), in microseconds"},
    [METRIC_INSERTION_US] = {TRITONSERVER_METRIC_KIND_GAUGE, "nv_cache_insertion_duration",
                             "Total cache insertion duration, in microseconds"},
};

struct TRITONCACHE_Cache {
  pthread_mutex_t lock; // guards `lru`
  lru lru;
  cache_metric metrics[METRIC_COUNT];
};

static void add_duration(const cache_metric *metric, uint64_t begun_ns)
{
  cache_metric_add(metric, (double)(clock_monotonic_ns() - begun_ns) / 1000);
}

// ---- entries ----

static char *data_of(const local_entry *entry)
{
  return (char *)entry + sizeof(*entry) + entry->sizes_count * sizeof(size_t);
}

static void free_entry(TRITONCACHE_Cache *cache, local_entry *entry)
{
  size_t bytes = entry->known.bytes;
  free(entry);
  LOCK_SCOPE(&cache->lock);
  lru_return(&cache->lru, bytes);
}

static void drop_entry(TRITONCACHE_Cache *cache, local_entry *entry)
{
  if (refcount_drop(&entry->users))
    free_entry(cache, entry);
}

// ---- room ----

// Entries that nobody reads any more, and whose bytes are returned: they are freed without the
// lock.
typedef struct left_entries {
  lru_entry *first;
  size_t count; // of all that were evicted
} left_entries;

static bool evict_one(TRITONCACHE_Cache *cache, left_entries *left)
{
  lru_entry *evicted = lru_evict(&cache->lru);
  if (evicted == NULL)
    return false;
  left->count++;
  if (!refcount_drop(&container_of(evicted, local_entry, known)->users))
    return true; // its last reader returns the bytes
  lru_return(&cache->lru, evicted->bytes);
  evicted->next = left->first;
  left->first = evicted;
  return true;
}

static void free_left(TRITONCACHE_Cache *cache, left_entries *left)
{
  lru_entry *next;
  for (lru_entry *entry = left->first; entry != NULL; entry = next) {
    next = entry->next;
    free(container_of(entry, local_entry, known));
  }
  if (left->count > 0)
    cache_metric_add(&cache->metrics[METRIC_EVICTIONS], (double)left->count);
}

static TRITONSERVER_Error *already_there(slice key)
{
  return backend_error(TRITONSERVER_ERROR_ALREADY_EXISTS, "key '%.*s' already exists",
                       (int)key.size, key.data);
}

// Makes room for `bytes` under a key that is not there yet.
static TRITONSERVER_Error *promise(TRITONCACHE_Cache *cache, slice key, uint64_t hash, size_t bytes)
{
  left_entries left = {0};
  bool promised = false;
  pthread_mutex_lock(&cache->lock);
  bool is_there = lru_find(&cache->lru, key, hash) != NULL;
  while (!is_there && !(promised = lru_promise(&cache->lru, bytes)) && evict_one(cache, &left))
    continue;
  pthread_mutex_unlock(&cache->lock);
  free_left(cache, &left);
  if (is_there)
    return already_there(key);
  return promised
             ? NULL
             : TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL,
                                     "the cache is full, and all that could leave is being read");
}

// Adds the data's bytes to the entry's own. An error: they exceed the cache's size.
static TRITONSERVER_Error *entry_bytes(const TRITONCACHE_Cache *cache, size_t data_bytes,
                                       size_t *bytes)
{
  size_t room = lru_room(&cache->lru);
  if (data_bytes > room || *bytes > room - data_bytes)
    return backend_error(TRITONSERVER_ERROR_INTERNAL,
                         "Requested byte_size: %zu is greater than total cache size: %zu",
                         data_bytes, cache->lru.limit);
  *bytes += data_bytes;
  return NULL;
}

// An entry with room for `data_bytes` in `count` buffers and for the key; its bytes are promised.
static TRITONSERVER_Error *new_entry(TRITONCACHE_Cache *cache, slice key, size_t count,
                                     size_t data_bytes, local_entry **result)
{
  uint64_t hash = string_map_hash(key);
  size_t bytes = sizeof(local_entry) + count * sizeof(size_t) + key.size + 2 * sizeof(size_t);
  BACKEND_RETURN_IF_ERROR(entry_bytes(cache, data_bytes, &bytes));
  BACKEND_RETURN_IF_ERROR(promise(cache, key, hash, bytes));
  local_entry *entry = malloc(bytes);
  if (entry == NULL) {
    pthread_mutex_lock(&cache->lock);
    lru_return(&cache->lru, bytes);
    pthread_mutex_unlock(&cache->lock);
    return backend_error_no_memory("an entry of the response cache");
  }
  *entry = (local_entry){.known.bytes = bytes, .known.hash = hash, .sizes_count = count};
  refcount_init(&entry->users);
  char *key_text = data_of(entry) + data_bytes;
  memcpy(key_text, key.data, key.size);
  entry->known.key = (slice){key_text, key.size};
  *result = entry;
  return NULL;
}

// ---- insertion ----

// Reads the sizes of the entry's buffers.
static TRITONSERVER_Error *read_sizes(TRITONCACHE_CacheEntry *entry, size_t *sizes, size_t count,
                                      size_t *sum)
{
  TRITONSERVER_BufferAttributes *attributes;
  TRITONSERVER_Error *e = TRITONSERVER_BufferAttributesNew(&attributes);
  *sum = 0;
  for (size_t i = 0; e == NULL && i < count; i++) {
    void *base;
    e = TRITONCACHE_CacheEntryGetBuffer(entry, i, &base, attributes);
    if (e == NULL)
      e = TRITONSERVER_BufferAttributesByteSize(attributes, &sizes[i]);
    if (e == NULL && (sizes[i] == 0 || __builtin_add_overflow(*sum, sizes[i], sum)))
      e = TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "buffer size was zero");
  }
  TRITONSERVER_ErrorDelete(TRITONSERVER_BufferAttributesDelete(attributes));
  return e;
}

// Lends the cached entry's memory to `entry`, for the server to copy.
static TRITONSERVER_Error *fill(const local_entry *kept, TRITONCACHE_CacheEntry *entry,
                                TRITONCACHE_Allocator *allocator)
{
  char *data = data_of(kept);
  for (size_t i = 0; i < kept->sizes_count; data += kept->sizes[i++])
    BACKEND_RETURN_IF_ERROR(TRITONCACHE_CacheEntrySetBuffer(entry, i, data, NULL));
  return TRITONCACHE_Copy(allocator, entry);
}

// False: another thread has added the key first.
static bool publish(TRITONCACHE_Cache *cache, local_entry *entry)
{
  LOCK_SCOPE(&cache->lock);
  if (lru_find(&cache->lru, entry->known.key, entry->known.hash) != NULL)
    return false;
  lru_add(&cache->lru, &entry->known);
  cache_metric_set(&cache->metrics[METRIC_ENTRIES], (double)cache->lru.count);
  cache_metric_set(&cache->metrics[METRIC_UTIL],
                   (double)cache->lru.bytes / (double)cache->lru.limit);
  return true;
}

static TRITONSERVER_Error *insert(TRITONCACHE_Cache *cache, const char *key,
                                  TRITONCACHE_CacheEntry *entry, TRITONCACHE_Allocator *allocator)
{
  size_t count, sum;
  size_t sizes[64];
  local_entry *kept = NULL;
  BACKEND_RETURN_IF_ERROR(TRITONCACHE_CacheEntryBufferCount(entry, &count));
  if (count > sizeof(sizes) / sizeof(sizes[0]))
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNSUPPORTED, "more than 64 buffers");
  BACKEND_RETURN_IF_ERROR(read_sizes(entry, sizes, count, &sum));
  BACKEND_RETURN_IF_ERROR(new_entry(cache, slice_of(key), count, sum, &kept));
  memcpy(kept->sizes, sizes, count * sizeof(sizes[0]));
  TRITONSERVER_Error *e = fill(kept, entry, allocator);
  if (e == NULL && !publish(cache, kept))
    e = already_there(kept->known.key);
  if (e != NULL)
    free_entry(cache, kept);
  return e;
}

// ---- look-up ----

static local_entry *find(TRITONCACHE_Cache *cache, slice key)
{
  uint64_t hash = string_map_hash(key);
  LOCK_SCOPE(&cache->lock);
  local_entry *entry = container_of(lru_find(&cache->lru, key, hash), local_entry, known);
  if (entry != NULL)
    refcount_take(&entry->users);
  return entry;
}

static TRITONSERVER_Error *copy_out(const local_entry *kept, TRITONCACHE_CacheEntry *entry,
                                    TRITONCACHE_Allocator *allocator)
{
  TRITONSERVER_BufferAttributes *attributes;
  BACKEND_RETURN_IF_ERROR(TRITONSERVER_BufferAttributesNew(&attributes));
  char *data = data_of(kept);
  TRITONSERVER_Error *e =
      TRITONSERVER_BufferAttributesSetMemoryType(attributes, TRITONSERVER_MEMORY_CPU);
  for (size_t i = 0; e == NULL && i < kept->sizes_count; data += kept->sizes[i++]) {
    e = TRITONSERVER_BufferAttributesSetByteSize(attributes, kept->sizes[i]);
    if (e == NULL)
      e = TRITONCACHE_CacheEntryAddBuffer(entry, data, attributes);
  }
  TRITONSERVER_ErrorDelete(TRITONSERVER_BufferAttributesDelete(attributes));
  return e != NULL ? e : TRITONCACHE_Copy(allocator, entry);
}

static TRITONSERVER_Error *look_up(TRITONCACHE_Cache *cache, const char *key,
                                   TRITONCACHE_CacheEntry *entry, TRITONCACHE_Allocator *allocator)
{
  local_entry *kept = find(cache, slice_of(key));
  cache_metric_add(&cache->metrics[METRIC_LOOKUPS], 1);
  cache_metric_add(&cache->metrics[kept != NULL ? METRIC_HITS : METRIC_MISSES], 1);
  if (kept == NULL)
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_NOT_FOUND, "key does not exist");
  TRITONSERVER_Error *e = copy_out(kept, entry, allocator);
  drop_entry(cache, kept);
  return e;
}

// ---- the entry points ----

// Reads a number as Triton does (std::stoull): the text after the digits is ignored.
static TRITONSERVER_Error *read_size(const char *config, size_t *size)
{
  json_error_t error;
  const char *rest;
  int64_t number = 0;
  json_t *root = json_loads(config, 0, &error);
  const json_t *value = json_object_get(root, "size");
  bool is_there = value != NULL;
  bool is_number = json_is_integer(value) || json_is_string(value);
  if (json_is_integer(value))
    number = json_integer_value(value);
  else if (json_is_string(value))
    is_number = text_begins_int64(json_string_value(value), &number, &rest);
  json_decref(root);
  if (!is_there)
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG,
                                 "Failed to initialize LocalCache: config didn't contain a valid "
                                 "'size' field.");
  if (!is_number || number < 0)
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG,
                                 "Failed to initialize LocalCache: 'size' config must be a string "
                                 "or uint type, a number of bytes");
  *size = (size_t)number;
  return NULL;
}

TRITONSERVER_Error *TRITONCACHE_CacheInitialize(TRITONCACHE_Cache **cache, const char *config)
{
  size_t size;
  if (cache == NULL || config == NULL)
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, "cache was nullptr");
  BACKEND_RETURN_IF_ERROR(read_size(config, &size));
  TRITONCACHE_Cache *made = calloc(1, sizeof(*made));
  if (made == NULL || !lru_init(&made->lru, size)) {
    free(made);
    return backend_error_no_memory("the response cache");
  }
  pthread_mutex_init(&made->lock, NULL);
  cache_metrics_init(made->metrics, metric_texts, METRIC_COUNT);
  *cache = made;
  return NULL;
}

TRITONSERVER_Error *TRITONCACHE_CacheFinalize(TRITONCACHE_Cache *cache)
{
  lru_entry *entry;
  if (cache == NULL)
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, "cache was nullptr");
  while ((entry = lru_evict(&cache->lru)) != NULL)
    drop_entry(cache, container_of(entry, local_entry, known));
  cache_metrics_fini(cache->metrics, METRIC_COUNT);
  lru_fini(&cache->lru);
  pthread_mutex_destroy(&cache->lock);
  free(cache);
  return NULL;
}

TRITONSERVER_Error *TRITONCACHE_CacheLookup(TRITONCACHE_Cache *cache, const char *key,
                                            TRITONCACHE_CacheEntry *entry,
                                            TRITONCACHE_Allocator *allocator)
{
  BACKEND_RETURN_IF_ERROR(cache_check(cache, key, entry, allocator));
  uint64_t begun = clock_monotonic_ns();
  TRITONSERVER_Error *e = look_up(cache, key, entry, allocator);
  add_duration(&cache->metrics[METRIC_LOOKUP_US], begun);
  return e;
}

TRITONSERVER_Error *TRITONCACHE_CacheInsert(TRITONCACHE_Cache *cache, const char *key,
                                            TRITONCACHE_CacheEntry *entry,
                                            TRITONCACHE_Allocator *allocator)
{
  BACKEND_RETURN_IF_ERROR(cache_check(cache, key, entry, allocator));
  uint64_t begun = clock_monotonic_ns();
  TRITONSERVER_Error *e = insert(cache, key, entry, allocator);
  add_duration(&cache->metrics[METRIC_INSERTION_US], begun);
  return e;
}
