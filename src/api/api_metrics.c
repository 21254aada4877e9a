// SPDX-License-Identifier: Apache-2.0
// TRITONSERVER_Metrics*, TRITONSERVER_MetricFamily* and TRITONSERVER_Metric*: scrapes, and metrics
// of programs and backends. Any thread.
#include "metrics/registry.h"

#include "api/convert.h"
#include "base/buffer.h"
#include "core/server_state.h"
#include "request/parameter.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LABELS 64

struct TRITONSERVER_Metrics {
  buffer text; // filled at the first request for it
};

TRITONSERVER_Error *TRITONSERVER_ServerMetrics(TRITONSERVER_Server *s,
                                               TRITONSERVER_Metrics **metrics)
{
  if (!s->options.metrics)
    return error_to_abi(error_new(ERROR_UNSUPPORTED, "metrics not supported"));
  *metrics = calloc(1, sizeof(**metrics));
  return *metrics == NULL ? error_to_abi(error_no_memory()) : NULL;
}

TRITONSERVER_Error *TRITONSERVER_MetricsDelete(TRITONSERVER_Metrics *metrics)
{
  if (metrics != NULL)
    buffer_fini(&metrics->text);
  free(metrics);
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MetricsFormatted(TRITONSERVER_Metrics *metrics,
                                                  TRITONSERVER_MetricFormat format,
                                                  const char **base, size_t *byte_size)
{
  if (format != TRITONSERVER_METRIC_PROMETHEUS)
    return error_to_abi(error_new(ERROR_INVALID_ARG, "unknown metrics format '%d'", (int)format));
  buffer_fini(&metrics->text);
  metrics->text = BUFFER_EMPTY;
  error *e = metrics_registry_print(metrics_registry_global(), &metrics->text);
  *base = metrics->text.data;
  *byte_size = metrics->text.size;
  return error_to_abi(e);
}

// ---- metrics of others ----

TRITONSERVER_Error *TRITONSERVER_MetricFamilyNew(TRITONSERVER_MetricFamily **family,
                                                 TRITONSERVER_MetricKind kind, const char *name,
                                                 const char *description)
{
  return error_to_abi(
      metric_family_new(metrics_registry_global(), (metric_kind)kind, name, description, family));
}

TRITONSERVER_Error *TRITONSERVER_MetricFamilyDelete(TRITONSERVER_MetricFamily *family)
{
  return error_to_abi(metric_family_free(family));
}

API_GET(TRITONSERVER_GetMetricFamilyKind, TRITONSERVER_MetricFamily, TRITONSERVER_MetricKind,
        (TRITONSERVER_MetricKind)metric_family_get_kind(self))

struct TRITONSERVER_MetricArgs {
  double *bounds; // owned; NULL until set
  size_t count;
};

TRITONSERVER_Error *TRITONSERVER_MetricArgsNew(TRITONSERVER_MetricArgs **args)
{
  *args = calloc(1, sizeof(**args));
  return *args == NULL ? error_to_abi(error_no_memory()) : NULL;
}

TRITONSERVER_Error *TRITONSERVER_MetricArgsSetHistogram(TRITONSERVER_MetricArgs *args,
                                                        const double *buckets,
                                                        const uint64_t buckets_count)
{
  double *bounds = calloc(buckets_count + 1, sizeof(*bounds));
  if (bounds == NULL)
    return error_to_abi(error_no_memory());
  if (buckets_count > 0)
    memcpy(bounds, buckets, buckets_count * sizeof(double));
  free(args->bounds);
  args->bounds = bounds;
  args->count = buckets_count;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MetricArgsDelete(TRITONSERVER_MetricArgs *args)
{
  if (args != NULL)
    free(args->bounds);
  free(args);
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MetricNewWithArgs(TRITONSERVER_Metric **m,
                                                   TRITONSERVER_MetricFamily *family,
                                                   const TRITONSERVER_Parameter **labels,
                                                   const uint64_t label_count,
                                                   const TRITONSERVER_MetricArgs *args)
{
  metric_label converted[MAX_LABELS];
  if (label_count > MAX_LABELS)
    return error_to_abi(error_new(ERROR_INVALID_ARG, "%" PRIu64 " labels, expected at most %d",
                                  label_count, MAX_LABELS));
  for (uint64_t i = 0; i < label_count; i++) {
    const parameter *label = labels[i];
    if (label->type != TRITONSERVER_PARAMETER_STRING)
      return error_to_abi(error_new(ERROR_INVALID_ARG,
                                    "Parameter [%s] must have a type of "
                                    "TRITONSERVER_PARAMETER_STRING to be added as a label.",
                                    label->name));
    converted[i] = (metric_label){label->name, label->value.string};
  }
  const metric_bounds bounds = {args != NULL ? args->bounds : NULL, args != NULL ? args->count : 0};
  return error_to_abi(
      metric_new(family, converted, label_count, bounds.bounds != NULL ? &bounds : NULL, m));
}

TRITONSERVER_Error *TRITONSERVER_MetricNew(TRITONSERVER_Metric **m,
                                           TRITONSERVER_MetricFamily *family,
                                           const TRITONSERVER_Parameter **labels,
                                           const uint64_t label_count)
{
  return TRITONSERVER_MetricNewWithArgs(m, family, labels, label_count, NULL);
}

TRITONSERVER_Error *TRITONSERVER_MetricDelete(TRITONSERVER_Metric *m)
{
  metric_free(m);
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MetricValue(TRITONSERVER_Metric *m, double *value)
{
  return error_to_abi(metric_value(m, value));
}

TRITONSERVER_Error *TRITONSERVER_MetricIncrement(TRITONSERVER_Metric *m, double value)
{
  return error_to_abi(metric_increment(m, value));
}

TRITONSERVER_Error *TRITONSERVER_MetricSet(TRITONSERVER_Metric *m, double value)
{
  return error_to_abi(metric_set(m, value));
}

TRITONSERVER_Error *TRITONSERVER_MetricObserve(TRITONSERVER_Metric *m, double value)
{
  return error_to_abi(metric_observe(m, value));
}

API_GET(TRITONSERVER_GetMetricKind, TRITONSERVER_Metric, TRITONSERVER_MetricKind,
        (TRITONSERVER_MetricKind)metric_get_kind(self))
