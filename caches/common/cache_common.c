// SPDX-License-Identifier: Apache-2.0
// Metrics and argument checks.
#include "caches/common/cache_common.h"

#include "backend_error.h"

void cache_metrics_init(cache_metric *metrics, const cache_metric_text *texts, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    TRITONSERVER_Error *e = TRITONSERVER_MetricFamilyNew(&metrics[i].family, texts[i].kind,
                                                         texts[i].name, texts[i].help);
    if (e == NULL)
      e = TRITONSERVER_MetricNew(&metrics[i].metric, metrics[i].family, NULL, 0);
    if (e != NULL)
      backend_error_log(e, "make a metric of the response cache");
  }
}

void cache_metrics_fini(const cache_metric *metrics, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    if (metrics[i].metric != NULL)
      TRITONSERVER_ErrorDelete(TRITONSERVER_MetricDelete(metrics[i].metric));
    if (metrics[i].family != NULL)
      TRITONSERVER_ErrorDelete(TRITONSERVER_MetricFamilyDelete(metrics[i].family));
  }
}

void cache_metric_set(const cache_metric *m, double value)
{
  if (m->metric != NULL)
    TRITONSERVER_ErrorDelete(TRITONSERVER_MetricSet(m->metric, value));
}

void cache_metric_add(const cache_metric *m, double value)
{
  if (m->metric != NULL)
    TRITONSERVER_ErrorDelete(TRITONSERVER_MetricIncrement(m->metric, value));
}

TRITONSERVER_Error *cache_check(const TRITONCACHE_Cache *cache, const char *key,
                                const TRITONCACHE_CacheEntry *entry,
                                const TRITONCACHE_Allocator *allocator)
{
  const char *missing = cache == NULL       ? "cache was nullptr"
                        : entry == NULL     ? "cache entry was nullptr"
                        : key == NULL       ? "key was nullptr"
                        : allocator == NULL ? "allocator was nullptr"
                                            : NULL;
  return missing == NULL ? NULL : TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, missing);
}
