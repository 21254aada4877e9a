// SPDX-License-Identifier: Apache-2.0
// A model's share of the response cache: asks it for answers, has it keep them, counts. NULL in
// `model.cache` for a model that does not want it and without a cache.
#ifndef NEREID_CORE_MODEL_CACHE_H
#define NEREID_CORE_MODEL_CACHE_H

#include "core/cache_lookups.h"
#include "core/model.h"
#include "metrics/sliding_quantiles.h"

typedef struct model_cache model_cache;

// Sets m->cache where the configuration and the server want one: on a load thread. UNAVAILABLE:
// memory is short.
error *model_cache_make(model *m);
void model_cache_free(model_cache *c); // NULL is allowed

// The threads that model_cache_answer is to be called on; NULL: any.
cache_lookups *model_cache_lookups(const model_cache *c);

// Answers the prepared request from the cache and releases it: true, and the request is its
// client's again. False: it has still to be computed, and its answer will be inserted.
bool model_cache_answer(model_cache *c, request *r);
// Counts the request as a miss, without asking.
void model_cache_skip(model_cache *c, request *r);

// What hits and misses took, in microseconds; NULL where there are to be no summaries.
typedef struct cache_summaries {
  sliding_quantiles hit, miss;
} cache_summaries;

const cache_summaries *model_cache_summaries(const model_cache *c);

#endif
