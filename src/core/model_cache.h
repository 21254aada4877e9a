// SPDX-License-Identifier: Apache-2.0
// A model's share of the response cache: asks it for answers, inserts answers, counts.
// `model.cache` is NULL without a cache, and for a model that does not want it.
#ifndef NEREID_CORE_MODEL_CACHE_H
#define NEREID_CORE_MODEL_CACHE_H

#include "core/cache_lookups.h"
#include "core/model.h"
#include "metrics/sliding_quantiles.h"

typedef struct model_cache model_cache;

// Sets m->cache if the configuration and the server want one; on a load thread. Errors:
// UNAVAILABLE.
error *model_cache_make(model *m);
void model_cache_free(model_cache *c); // NULL is allowed

// The threads that must call model_cache_answer; NULL: any thread may.
cache_lookups *model_cache_lookups(const model_cache *c);

// True: the cache had the answer, the prepared request was answered and released. False: it must
// still be computed, and its answer will be inserted.
bool model_cache_answer(model_cache *c, request *r);
// Counts the request as a miss without asking the cache.
void model_cache_skip(model_cache *c, request *r);

// How long hits and misses took, in microseconds; NULL without summaries.
typedef struct cache_summaries {
  sliding_quantiles hit, miss;
} cache_summaries;

const cache_summaries *model_cache_summaries(const model_cache *c);

#endif
