// SPDX-License-Identifier: Apache-2.0
// One scrape on its way to Prometheus' text format 0.0.4: families in the order in which they are
// first named, each with its HELP and TYPE line and its samples together, whoever adds them. A
// family without samples does not appear. One owner, one thread.
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
  METRIC_SUMMARY = 3, // the server's own only
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

// The family of this name, made when it is new; `name` and `help` are copied. NULL, which the
// functions below accept and ignore, when memory is short or when the name is taken by a family of
// another kind.
metrics_family *metrics_sheet_family(metrics_sheet *sheet, metric_kind kind, const char *name,
                                     const char *help);
// The same for what is the process's, not a server's: NULL, too, when it has a sample, by the
// collector of another server.
metrics_family *metrics_sheet_process_family(metrics_sheet *sheet, metric_kind kind,
                                             const char *name, const char *help);

// Appends `a="x",b="y"`, sorted by name (so that names with a leading '_' come first), values
// escaped, with U+FFFD for bytes that are not UTF-8: one such byte would cost a whole scrape. False
// when memory is short. The names are the caller's to check, and that none comes twice.
bool metrics_render_labels(buffer *text, const metric_label *labels, size_t count);

// Appends `labels`, which metrics_render_labels made, with one more, which comes where its name
// belongs.
void metrics_insert_label(buffer *text, slice labels, metric_label more);

// Samples; `labels` is what metrics_render_labels made.
void metrics_family_add(metrics_family *family, slice labels, double value);
void metrics_family_add_integer(metrics_family *family, slice labels, uint64_t value);
// The same with one more label, which comes where its name belongs.
void metrics_family_add_with(metrics_family *family, slice labels, metric_label more,
                             uint64_t value);

// A histogram's samples: `counts` has bound_count + 1 entries, each for its own range only.
void metrics_family_add_histogram(metrics_family *family, slice labels, const double *bounds,
                                  const uint64_t *counts, size_t bound_count, double sum);

// A summary's samples: `values` has one for each of the quantiles, NaN where nothing is known.
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
