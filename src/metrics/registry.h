// SPDX-License-Identifier: Apache-2.0
// Everything on /metrics: families that keep their values here (custom metrics of programs and
// backends), and collectors that write samples at a scrape (the server's counters, kept where they
// are counted). Any thread; changing a value takes no lock.
#ifndef NEREID_METRICS_REGISTRY_H
#define NEREID_METRICS_REGISTRY_H

#include "base/buffer.h"
#include "base/error.h"
#include "metrics/exposition.h"

#include <stddef.h>

typedef struct metrics_registry metrics_registry;

// The process's only registry, as in Triton: families may be made before a server exists.
metrics_registry *metrics_registry_global(void);

// Appends the whole exposition to `text`.
error *metrics_registry_print(metrics_registry *registry, buffer *text);

// --- Collectors

typedef struct metrics_collector metrics_collector;

// Adds samples to the sheet. Runs at each scrape, one collector at a time, under the registry's
// lock of collectors: it must not add or remove collectors.
typedef void metrics_collect(void *context, metrics_sheet *sheet);

error *metrics_registry_add_collector(metrics_registry *registry, metrics_collect *collect,
                                      void *context, metrics_collector **collector);
// When it returns, the collector does not run and never will. NULL is allowed.
void metrics_registry_remove_collector(metrics_registry *registry,
                                       metrics_collector *collector_owned);

// --- Families with values of their own. These are TRITONSERVER_MetricFamily and
// --- TRITONSERVER_Metric; the errors are Triton's.

typedef struct TRITONSERVER_MetricFamily metric_family;
typedef struct TRITONSERVER_Metric metric;

// Upper bounds of a histogram's buckets, strictly ascending; the last bucket, without bound, is
// implied.
typedef struct metric_bounds {
  const double *bounds;
  size_t count;
} metric_bounds;

// A handle on the family of this name, made if new; the first handle's help counts. INVALID_ARG for
// a bad name or kind, for a name like the server's own, and for a name with another kind.
error *metric_family_new(metrics_registry *registry, metric_kind kind, const char *name,
                         const char *help, metric_family **family);
// INTERNAL while metrics made through this handle exist.
error *metric_family_free(metric_family *family_owned);
metric_kind metric_family_get_kind(const metric_family *family);

// A handle on the metric with these labels, made if new. `bounds` must be set for histograms and
// NULL for other kinds, else INVALID_ARG, as for bad label names.
error *metric_new(metric_family *family, const metric_label *labels, size_t label_count,
                  const metric_bounds *bounds, metric **m);
// Freeing the last handle removes the metric from the exposition.
void metric_free(metric *m_owned);

metric_kind metric_get_kind(const metric *m);
error *metric_value(const metric *m, double *value); // UNSUPPORTED for a histogram
error *metric_increment(metric *m, double value);    // INVALID_ARG: a counter by less than 0
error *metric_set(metric *m, double value);          // UNSUPPORTED for other kinds than a gauge
error *metric_observe(metric *m, double value);      // UNSUPPORTED for other kinds than a histogram

#endif
