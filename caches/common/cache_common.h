// SPDX-License-Identifier: Apache-2.0
// The caches' common metrics and argument checks. Any thread.
#ifndef NEREID_CACHES_COMMON_CACHE_COMMON_H
#define NEREID_CACHES_COMMON_CACHE_COMMON_H

#include "triton/core/tritoncache.h"
#include "triton/core/tritonserver.h"

#include <stddef.h>

typedef struct cache_metric_text {
  TRITONSERVER_MetricKind kind;
  const char *name, *help;
} cache_metric_text;

typedef struct cache_metric {
  TRITONSERVER_MetricFamily *family; // NULL: no metrics
  TRITONSERVER_Metric *metric;
} cache_metric;

// `metrics` are zero at first. If making metrics fails the cache works without; the log says why.
void cache_metrics_init(cache_metric *metrics, const cache_metric_text *texts, size_t count);
void cache_metrics_fini(const cache_metric *metrics, size_t count);

// Do nothing without a metric.
void cache_metric_set(const cache_metric *m, double value);
void cache_metric_add(const cache_metric *m, double value);

// The error that names a missing argument of an entry point; the caller's.
TRITONSERVER_Error *cache_check(const TRITONCACHE_Cache *cache, const char *key,
                                const TRITONCACHE_CacheEntry *entry,
                                const TRITONCACHE_Allocator *allocator);

#endif
