// SPDX-License-Identifier: Apache-2.0
// A cache's library: opened at the start of a server and closed at its end. Its functions run on
// any thread that has a request or a response.
#include "core/cache.h"

#include "backend/library.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "core/cache_lookups.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

typedef struct cache_functions {
  TRITONSERVER_Error *(*initialize)(TRITONCACHE_Cache **, const char *);
  TRITONSERVER_Error *(*finalize)(TRITONCACHE_Cache *);
  TRITONSERVER_Error *(*look_up)(TRITONCACHE_Cache *, const char *, TRITONCACHE_CacheEntry *,
                                 TRITONCACHE_Allocator *);
  TRITONSERVER_Error *(*insert)(TRITONCACHE_Cache *, const char *, TRITONCACHE_CacheEntry *,
                                TRITONCACHE_Allocator *);
  unsigned (*lookup_threads)(TRITONCACHE_Cache *); // caches/cache_extension.h; or NULL
} cache_functions;

struct response_cache {
  char *name;
  char *library;
  void *handle;
  TRITONCACHE_Cache *state; // the library's own
  cache_functions functions;
  cache_lookups *lookups; // NULL: look-ups do not wait
  bool has_secret;
  uint8_t secret[SECRET_BYTES];
};

static error *find_library(const char *dir, const char *name, char **path)
{
  if (name[0] == '\0' || strchr(name, '/') != NULL || strstr(name, "..") != NULL)
    return error_new(ERROR_INVALID_ARG,
                     "invalid cache name '%s', expected the name of a directory in %s", name, dir);
  if (asprintf(path, "%s/%s/libtritoncache_%s.so", dir, name, name) < 0) {
    *path = NULL;
    return error_no_memory();
  }
  if (access(*path, F_OK) == 0)
    return NULL;
  return error_new(ERROR_INVALID_ARG,
                   "unable to find 'libtritoncache_%s.so' for cache. Searched: %s", name, dir);
}

static error *find_functions(response_cache *cache)
{
  cache_functions *f = &cache->functions;
  const struct {
    const char *symbol;
    void *function;
  } table[] = {
      {"TRITONCACHE_CacheInitialize", &f->initialize},
      {"TRITONCACHE_CacheFinalize", &f->finalize},
      {"TRITONCACHE_CacheLookup", &f->look_up},
      {"TRITONCACHE_CacheInsert", &f->insert},
  };
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    void *found;
    library_find(cache->handle, table[i].symbol, table[i].function);
    memcpy(&found, table[i].function, sizeof(found));
    if (found == NULL)
      return error_new(ERROR_NOT_FOUND,
                       "unable to find required entrypoint '%s' in shared library '%s'",
                       table[i].symbol, cache->library);
  }
  library_find(cache->handle, "NEREID_CacheLookupThreads", &f->lookup_threads);
  return NULL;
}

// Without a secret, keys are made as for caches that are shared.
static void make_secret(response_cache *cache)
{
  const char *promise;
  library_find(cache->handle, "NEREID_CacheStaysInProcess", &promise);
  cache->has_secret =
      promise != NULL && getrandom(cache->secret, SECRET_BYTES, 0) == (ssize_t)SECRET_BYTES;
}

static error *start(response_cache *cache, const char *config, cache_lookup *look_up)
{
  RETURN_IF_ERROR(library_open(cache->library, &cache->handle));
  RETURN_IF_ERROR(find_functions(cache));
  RETURN_IF_ERROR((error *)cache->functions.initialize(&cache->state, config));
  if (cache->state == NULL)
    return error_new(ERROR_INTERNAL, "Failed to initialize cache implementation");
  make_secret(cache);
  unsigned threads =
      cache->functions.lookup_threads == NULL ? 0 : cache->functions.lookup_threads(cache->state);
  return threads == 0 ? NULL : cache_lookups_new(threads, look_up, &cache->lookups);
}

error *response_cache_open(const char *dir, const char *name, const char *config,
                           cache_lookup *look_up, response_cache **result)
{
  response_cache *cache = calloc(1, sizeof(*cache));
  if (cache == NULL)
    return error_no_memory();
  error *e = (cache->name = strdup(name)) == NULL ? error_no_memory() : NULL;
  if (e == NULL)
    e = find_library(dir, name, &cache->library);
  if (e == NULL)
    e = start(cache, config, look_up); // the configuration may hold a password: it is not logged
  if (e != NULL) {
    response_cache_close(cache);
    return e;
  }
  log_info("the response cache '%s' is open (%s)", name, cache->library);
  *result = cache;
  return NULL;
}

void response_cache_close(response_cache *cache)
{
  if (cache == NULL)
    return;
  cache_lookups_free(cache->lookups);
  if (cache->state != NULL) {
    AUTO_ERROR error *e = (error *)cache->functions.finalize(cache->state);
    if (e != NULL)
      log_error("failed finalizing cache '%s': %s", cache->name, error_message(e));
  }
  library_close(cache->handle);
  free(cache->name);
  free(cache->library);
  free(cache);
}

error *response_cache_look_up(response_cache *cache, const char *key, TRITONCACHE_CacheEntry *entry,
                              TRITONCACHE_Allocator *allocator)
{
  return (error *)cache->functions.look_up(cache->state, key, entry, allocator);
}

error *response_cache_insert(response_cache *cache, const char *key, TRITONCACHE_CacheEntry *entry,
                             TRITONCACHE_Allocator *allocator)
{
  return (error *)cache->functions.insert(cache->state, key, entry, allocator);
}

const uint8_t *response_cache_secret(const response_cache *cache)
{
  return cache->has_secret ? cache->secret : NULL;
}

cache_lookups *response_cache_lookups(const response_cache *cache)
{
  return cache->lookups;
}
