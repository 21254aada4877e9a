// SPDX-License-Identifier: Apache-2.0
// One scrape in Prometheus' text format 0.0.4. Families appear in the order of first use, each with
// its HELP and TYPE line and all its samples, whichever code adds them. A family without samples is
// left out. One owner, one thread.
#ifndef NEREID_METRICS_EXPOSITION_H
#define NEREID_METRICS_EXPOSITION_H

#include "base/buffer.h"
#include "base/slice.h"
#include "base/string_map.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum metric_kind { // the first three are values of TRITONSERVER_MetricKind
  METRIC_COUNTER = 0,
  METRIC_GAUGE = 1,
  METRIC_HISTOGRAM = 2,
  METRIC_SUMMARY = 3, // only for the server's own metrics
} metric_kind;

typedef struct metric_label {
  const char *name;
  const char *value;
} metric_label;

typedef struct metrics_family metrics_family;

typedef struct metrics_sheet {
  string_map families; // name → metrics_family
  bool failed;         // memory was short: the text is incomplete
} metrics_sheet;

#define METRICS_SHEET_EMPTY ((metrics_sheet){0})
void metrics_sheet_fini(metrics_sheet *sheet);

// Finds or makes the family of this name; `name` and `help` are copied. NULL when memory is short
// or a family of another kind has the name; the functions below ignore a NULL family.
metrics_family *metrics_sheet_family(metrics_sheet *sheet, metric_kind kind, const char *name,
                                     const char *help);
// The same for metrics of the process, not of a server. Also NULL when another server's collector
// has added the sample already.
metrics_family *metrics_sheet_process_family(metrics_sheet *sheet, metric_kind kind,
                                             const char *name, const char *help);

// Appends `a="x",b="y"`, sorted by name (names with a leading '_' come first), values escaped.
// Bytes that are not UTF-8 become U+FFFD, since one of them would invalidate the whole scrape.
// False when memory is short. The caller checks that the names are valid and unique.
bool metrics_render_labels(buffer *text, const metric_label *labels, size_t count);

// Appends `labels`, made by metrics_render_labels, with one more label at its sorted place.
void metrics_insert_label(buffer *text, slice labels, metric_label more);

// Adds a sample; `labels` is made by metrics_render_labels.
void metrics_family_add(metrics_family *family, slice labels, double value);
void metrics_family_add_integer(metrics_family *family, slice labels, uint64_t value);
// The same with one more label at its sorted place.
void metrics_family_add_with(metrics_family *family, slice labels, metric_label more,
                             uint64_t value);

// A histogram's samples: `counts` has bound_count + 1 entries, each for its own bucket only.
void metrics_family_add_histogram(metrics_family *family, slice labels, const double *bounds,
                                  const uint64_t *counts, size_t bound_count, double sum);

// A summary's samples: `values` has one entry for each quantile, NaN where there is no data.
void metrics_family_add_summary(metrics_family *family, slice labels, const double *quantiles,
                                const double *values, size_t quantile_count, uint64_t count,
                                double sum);

// Appends the whole text. False when memory was short.
bool metrics_sheet_print(const metrics_sheet *sheet, buffer *text);

// Metric names are [a-zA-Z_:][a-zA-Z0-9_:]*, label names the same without ':' and not beginning
// with "__".
bool metrics_is_metric_name(const char *name);
bool metrics_is_label_name(const char *name);

#endif
