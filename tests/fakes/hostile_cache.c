// SPDX-License-Identifier: Apache-2.0
// A cache as nobody should write it: keeps the last answer, and misbehaves in the way that its
// configuration names (`way`, a row of `ways`; "good" is none). With `threads` look-ups come from
// so many threads of the server. While the file `hold` is there, look-ups and insertions wait.
#include "caches/cache_extension.h"

#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MOST_BYTES ((size_t)1 << 20)

typedef struct call {
  TRITONCACHE_Cache *cache;
  const char *key;
  TRITONCACHE_CacheEntry *entry;
  TRITONCACHE_Allocator *allocator;
  char *bytes; // a copy of the entry that is kept; or room for the one to come
  size_t size;
} call;

typedef TRITONSERVER_Error *step(const call *c);

typedef struct way {
  const char *name;
  step *look_up; // NULL: as a good cache
  step *insert;
} way;

struct TRITONCACHE_Cache {
  const way *way;
  unsigned threads;
  char hold[4096];
  pthread_mutex_t lock; // guards what follows
  char key[256];
  char bytes[MOST_BYTES];
  size_t size;
};

static TRITONSERVER_Error *failure(void)
{
  return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "%s%n \x1b[31m no\nsense");
}

static TRITONSERVER_Error *add(const call *c, void *bytes, size_t size)
{
  TRITONSERVER_BufferAttributes *attributes;
  TRITONSERVER_BufferAttributesNew(&attributes);
  TRITONSERVER_BufferAttributesSetMemoryType(attributes, TRITONSERVER_MEMORY_CPU);
  TRITONSERVER_BufferAttributesSetByteSize(attributes, size);
  TRITONSERVER_Error *e = TRITONCACHE_CacheEntryAddBuffer(c->entry, bytes, attributes);
  TRITONSERVER_BufferAttributesDelete(attributes);
  return e;
}

// What an error says does not matter to this cache.
static void forget(TRITONSERVER_Error *e)
{
  TRITONSERVER_ErrorDelete(e);
}

// ---- look-ups of a key that is there ----

static TRITONSERVER_Error *give(const call *c)
{
  TRITONSERVER_Error *e = add(c, c->bytes, c->size);
  return e != NULL ? e : TRITONCACHE_Copy(c->allocator, c->entry);
}

static TRITONSERVER_Error *fail(const call *c)
{
  (void)c;
  return failure();
}

static TRITONSERVER_Error *fail_oddly(const call *c)
{
  (void)c;
  return TRITONSERVER_ErrorNew((TRITONSERVER_Error_Code)4711, "");
}

static TRITONSERVER_Error *do_nothing(const call *c)
{
  (void)c;
  return NULL;
}

static TRITONSERVER_Error *give_and_fail(const call *c)
{
  forget(give(c));
  return failure();
}

static TRITONSERVER_Error *give_twice(const call *c)
{
  forget(give(c));
  forget(TRITONCACHE_Copy(c->allocator, c->entry));
  return NULL;
}

static TRITONSERVER_Error *copy_without_a_buffer(const call *c)
{
  forget(TRITONCACHE_Copy(c->allocator, c->entry));
  return NULL;
}

static TRITONSERVER_Error *add_many_buffers(const call *c)
{
  for (int i = 0; i < 100; i++)
    forget(add(c, c->bytes, c->size));
  forget(TRITONCACHE_Copy(c->allocator, c->entry));
  return NULL;
}

static TRITONSERVER_Error *add_nonsense(const call *c)
{
  forget(add(c, NULL, 5));
  forget(add(c, c->bytes, 0));
  forget(TRITONCACHE_CacheEntryAddBuffer(NULL, c->bytes, NULL));
  forget(TRITONCACHE_CacheEntrySetBuffer(c->entry, 1000, c->bytes, NULL));
  forget(TRITONCACHE_Copy(NULL, c->entry));
  forget(TRITONCACHE_Copy(c->allocator, NULL));
  return NULL;
}

// Says nothing of what TRITONCACHE_Copy thinks of it.
static TRITONSERVER_Error *give_half(const call *c)
{
  forget(add(c, c->bytes, c->size / 2));
  forget(TRITONCACHE_Copy(c->allocator, c->entry));
  return NULL;
}

static TRITONSERVER_Error *give_ones(const call *c)
{
  memset(c->bytes, 1, c->size);
  forget(give(c));
  return NULL;
}

// All is well but the last byte of the output's name.
static TRITONSERVER_Error *give_another_output(const call *c)
{
  char *name = memmem(c->bytes, c->size, "OUTPUT0", 7);
  if (name != NULL)
    name[6] = '9';
  forget(give(c));
  return NULL;
}

static TRITONSERVER_Error *give_a_tail(const call *c)
{
  c->bytes[c->size] = 1; // there is room for it
  forget(add(c, c->bytes, c->size + 1));
  forget(TRITONCACHE_Copy(c->allocator, c->entry));
  return NULL;
}

// ---- insertions ----

static TRITONSERVER_Error *copy_to(const call *c, void *base, size_t size)
{
  TRITONSERVER_BufferAttributes *attributes;
  TRITONSERVER_BufferAttributesNew(&attributes);
  TRITONSERVER_BufferAttributesSetByteSize(attributes, size);
  forget(TRITONCACHE_CacheEntrySetBuffer(c->entry, 0, base, attributes));
  TRITONSERVER_BufferAttributesDelete(attributes);
  return TRITONCACHE_Copy(c->allocator, c->entry);
}

static TRITONSERVER_Error *keep(const call *c)
{
  TRITONSERVER_Error *e = copy_to(c, c->bytes, c->size);
  if (e != NULL)
    return e;
  pthread_mutex_lock(&c->cache->lock);
  memcpy(c->cache->bytes, c->bytes, c->size);
  c->cache->size = c->size;
  snprintf(c->cache->key, sizeof(c->cache->key), "%s", c->key);
  pthread_mutex_unlock(&c->cache->lock);
  return NULL;
}

static TRITONSERVER_Error *keep_twice(const call *c)
{
  forget(keep(c));
  return keep(c);
}

static TRITONSERVER_Error *keep_and_fail(const call *c)
{
  forget(keep(c));
  return failure();
}

static TRITONSERVER_Error *copy_to_nowhere(const call *c)
{
  forget(copy_to(c, NULL, c->size));
  return NULL;
}

static TRITONSERVER_Error *copy_to_less(const call *c)
{
  forget(copy_to(c, c->bytes, c->size - 1));
  return NULL;
}

static TRITONSERVER_Error *copy_to_two(const call *c)
{
  forget(add(c, c->bytes, c->size));
  forget(copy_to(c, c->bytes, c->size));
  return NULL;
}

static const way ways[] = {
    {"good", NULL, NULL},
    {"lookup_fails", fail, NULL},
    {"lookup_fails_oddly", fail_oddly, NULL},
    {"lookup_does_nothing", do_nothing, NULL},
    {"lookup_gives_and_fails", give_and_fail, NULL},
    {"lookup_gives_twice", give_twice, NULL},
    {"lookup_without_a_buffer", copy_without_a_buffer, NULL},
    {"lookup_many_buffers", add_many_buffers, NULL},
    {"lookup_nonsense", add_nonsense, NULL},
    {"lookup_half", give_half, NULL},
    {"lookup_ones", give_ones, NULL},
    {"lookup_another_output", give_another_output, NULL},
    {"lookup_a_tail", give_a_tail, NULL},
    {"insert_fails", NULL, fail},
    {"insert_fails_oddly", NULL, fail_oddly},
    {"insert_does_nothing", NULL, do_nothing},
    {"insert_keeps_twice", NULL, keep_twice},
    {"insert_keeps_and_fails", NULL, keep_and_fail},
    {"insert_to_nowhere", NULL, copy_to_nowhere},
    {"insert_to_less", NULL, copy_to_less},
    {"insert_to_two", NULL, copy_to_two},
    {"initialize_fails", NULL, NULL},
    {"initialize_gives_nothing", NULL, NULL},
    {"finalize_fails", NULL, NULL},
};

// ---- the entry points ----

static const way *find_way(const char *name)
{
  for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
    if (name != NULL && strcmp(ways[i].name, name) == 0)
      return &ways[i];
  fprintf(stderr, "there is no way '%s'\n", name != NULL ? name : "");
  abort();
}

static bool is(const TRITONCACHE_Cache *cache, const char *name)
{
  return strcmp(cache->way->name, name) == 0;
}

TRITONSERVER_Error *TRITONCACHE_CacheInitialize(TRITONCACHE_Cache **cache, const char *config)
{
  json_t *settings = json_loads(config, 0, NULL);
  const char *hold = json_string_value(json_object_get(settings, "hold"));
  const char *threads = json_string_value(json_object_get(settings, "threads"));
  TRITONCACHE_Cache *made = calloc(1, sizeof(*made));
  made->way = find_way(json_string_value(json_object_get(settings, "way")));
  made->threads = threads != NULL ? (unsigned)strtoul(threads, NULL, 10) : 0;
  snprintf(made->hold, sizeof(made->hold), "%s", hold != NULL ? hold : "");
  pthread_mutex_init(&made->lock, NULL);
  json_decref(settings);
  if (is(made, "initialize_fails") || is(made, "initialize_gives_nothing")) {
    TRITONSERVER_Error *e = is(made, "initialize_fails") ? failure() : NULL;
    free(made);
    return e;
  }
  *cache = made;
  return NULL;
}

TRITONSERVER_Error *TRITONCACHE_CacheFinalize(TRITONCACHE_Cache *cache)
{
  TRITONSERVER_Error *e = is(cache, "finalize_fails") ? failure() : NULL;
  pthread_mutex_destroy(&cache->lock);
  free(cache);
  return e;
}

static void await_end_of_hold(const TRITONCACHE_Cache *cache)
{
  while (cache->hold[0] != '\0' && access(cache->hold, F_OK) == 0)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

unsigned NEREID_CacheLookupThreads(TRITONCACHE_Cache *cache)
{
  return cache->threads;
}

TRITONSERVER_Error *TRITONCACHE_CacheLookup(TRITONCACHE_Cache *cache, const char *key,
                                            TRITONCACHE_CacheEntry *entry,
                                            TRITONCACHE_Allocator *allocator)
{
  call c = {cache, key, entry, allocator, NULL, 0};
  await_end_of_hold(cache);
  pthread_mutex_lock(&cache->lock);
  if (strcmp(key, cache->key) == 0) {
    c.size = cache->size;
    c.bytes = malloc(c.size + 1);
    memcpy(c.bytes, cache->bytes, c.size);
  }
  pthread_mutex_unlock(&cache->lock);
  if (c.bytes == NULL)
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_NOT_FOUND, "key does not exist");
  TRITONSERVER_Error *e = cache->way->look_up != NULL ? cache->way->look_up(&c) : give(&c);
  free(c.bytes);
  return e;
}

TRITONSERVER_Error *TRITONCACHE_CacheInsert(TRITONCACHE_Cache *cache, const char *key,
                                            TRITONCACHE_CacheEntry *entry,
                                            TRITONCACHE_Allocator *allocator)
{
  void *base;
  call c = {cache, key, entry, allocator, NULL, 0};
  TRITONSERVER_BufferAttributes *attributes;
  await_end_of_hold(cache);
  TRITONSERVER_BufferAttributesNew(&attributes);
  forget(TRITONCACHE_CacheEntryGetBuffer(entry, 0, &base, attributes));
  TRITONSERVER_BufferAttributesByteSize(attributes, &c.size);
  TRITONSERVER_BufferAttributesDelete(attributes);
  if (c.size == 0 || c.size > MOST_BYTES)
    return failure();
  c.bytes = malloc(c.size);
  TRITONSERVER_Error *e = cache->way->insert != NULL ? cache->way->insert(&c) : keep(&c);
  free(c.bytes);
  return e;
}
