// Collects by model version: during a reload two copies of one version count together. Runs on the
// scraper's thread; the counters are read without a lock (request/statistics.h).
#include "core/model_metrics.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "core/output_counts.h"
#include "core/server_options.h"
#include "metrics/process_metrics.h"
#include "metrics/registry.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct model_metrics {
  server *server;
  bool histograms;
  metrics_collector *collector;
  process_metrics *process;
};

// ---- one row for each model version ----

typedef struct model_row {
  char *name;
  int64_t version;
  char *labels; // rendered, without the braces
  statistics sum;
  uint64_t pending;
  uint64_t closed[BATCH_CLOSE_REASON_COUNT];
  output_counts mismatches;
  double load_seconds; // of the newest copy
} model_row;

typedef struct model_rows {
  model_row *items;
  size_t count;
  bool failed; // memory was short
} model_rows;

// model, version, and the tags of the configuration with '_' before their names.
static char *render_labels(const model *m)
{
  const Inference__ModelConfig *config = model_config(m);
  size_t count = config->n_metric_tags + 2;
  metric_label *labels = calloc(count, sizeof(*labels));
  char **names = calloc(count, sizeof(*names));
  char version[32];
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  bool rendered = labels != NULL && names != NULL;
  snprintf(version, sizeof(version), "%" PRId64, model_version(m));
  for (size_t i = 0; rendered && i < config->n_metric_tags; i++) {
    size_t size = strlen(config->metric_tags[i]->key) + 2;
    names[i] = malloc(size);
    rendered = names[i] != NULL;
    if (rendered) {
      snprintf(names[i], size, "_%s", config->metric_tags[i]->key);
      labels[i] = (metric_label){names[i], config->metric_tags[i]->value};
    }
  }
  if (rendered) {
    labels[count - 2] = (metric_label){"model", model_name(m)};
    labels[count - 1] = (metric_label){"version", version};
    rendered = metrics_render_labels(&text, labels, count);
  }
  for (size_t i = 0; names != NULL && i < count; i++)
    free(names[i]);
  free(names);
  free(labels);
  return rendered ? buffer_take_text(&text) : NULL;
}

static model_row *find_row(model_rows *rows, const model *m)
{
  for (size_t i = 0; i < rows->count; i++)
    if (rows->items[i].version == model_version(m) &&
        strcmp(rows->items[i].name, model_name(m)) == 0)
      return &rows->items[i];
  return NULL;
}

static model_row *add_row(model_rows *rows, const model *m, double load_seconds)
{
  model_row *grown = reallocarray(rows->items, rows->count + 1, sizeof(*grown));
  if (grown == NULL)
    return NULL;
  rows->items = grown;
  model_row *row = &grown[rows->count];
  *row = (model_row){.version = model_version(m), .load_seconds = load_seconds};
  row->name = strdup(model_name(m));
  row->labels = render_labels(m);
  error *e = statistics_init(&row->sum, 0);
  if (row->name == NULL || row->labels == NULL || e != NULL) {
    error_free(e);
    free(row->name);
    free(row->labels);
    statistics_fini(&row->sum);
    return NULL;
  }
  rows->count++;
  return row;
}

// The newest copies come first: theirs is the load time that is shown.
static void visit_model(void *context, model *m, double load_seconds)
{
  model_rows *rows = context;
  model_row *row = find_row(rows, m);
  if (row == NULL)
    row = add_row(rows, m, load_seconds);
  if (row == NULL) {
    rows->failed = true;
    return;
  }
  model_statistics(m, &row->sum);
  rows->failed |= !output_counts_add(&row->mismatches, m);
  row->pending += model_pending(m);
  for (int reason = 0; reason < BATCH_CLOSE_REASON_COUNT; reason++)
    row->closed[reason] += model_closed_batches(m, (batch_close_reason)reason);
}

static int compare_rows(const void *a, const void *b)
{
  const model_row *left = a, *right = b;
  int names = strcmp(left->name, right->name);
  return names != 0 ? names : (left->version > right->version) - (left->version < right->version);
}

static void free_rows(model_rows *rows)
{
  for (size_t i = 0; i < rows->count; i++) {
    free(rows->items[i].name);
    free(rows->items[i].labels);
    statistics_fini(&rows->items[i].sum);
    output_counts_fini(&rows->items[i].mismatches);
  }
  free(rows->items);
}

// ---- counters ----

#define COUNTER_OFFSET(field) offsetof(statistics, field)

// Triton's counters: a number, or nanoseconds shown as microseconds.
static const struct {
  const char *name;
  const char *help;
  size_t offset;
  uint64_t divisor;
} counters[] = {
    {"nv_inference_request_success", "Requests answered without an error",
     COUNTER_OFFSET(success.count), 1},
    {"nv_inference_count", "Inferences: the rows of all batches", COUNTER_OFFSET(inference_count),
     1},
    {"nv_inference_exec_count", "Executions of the model: batches", COUNTER_OFFSET(execution_count),
     1},
    {"nv_inference_request_duration_us", "Time in requests that succeeded, from start to end",
     COUNTER_OFFSET(success.ns), 1000},
    {"nv_inference_queue_duration_us", "Time that requests waited for an instance",
     COUNTER_OFFSET(queue.ns), 1000},
    {"nv_inference_compute_input_duration_us", "Time in which instances took inputs in",
     COUNTER_OFFSET(compute_input.ns), 1000},
    {"nv_inference_compute_infer_duration_us", "Time in which instances computed",
     COUNTER_OFFSET(compute_infer.ns), 1000},
    {"nv_inference_compute_output_duration_us", "Time in which instances gave outputs out",
     COUNTER_OFFSET(compute_output.ns), 1000},
};

static uint64_t load(const _Atomic uint64_t *counter)
{
  return atomic_load_explicit(counter, memory_order_relaxed);
}

static slice labels_of(const model_row *row)
{
  return slice_of(row->labels);
}

static void collect_counters(const model_rows *rows, metrics_sheet *sheet)
{
  for (size_t c = 0; c < sizeof(counters) / sizeof(counters[0]); c++) {
    metrics_family *family =
        metrics_sheet_family(sheet, METRIC_COUNTER, counters[c].name, counters[c].help);
    for (size_t i = 0; i < rows->count; i++) {
      const char *sum = (const char *)&rows->items[i].sum;
      const _Atomic uint64_t *counter = (const void *)(sum + counters[c].offset);
      metrics_family_add_integer(family, labels_of(&rows->items[i]),
                                 load(counter) / counters[c].divisor);
    }
  }
}

// Adds a sample with one more label, which sorts behind the row's own or among them.
static void add_with_label(metrics_family *family, const model_row *row, const char *label,
                           const char *value, uint64_t count)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  const char *version = strstr(row->labels, "version=\"");
  size_t before = version != NULL ? (size_t)(version - row->labels) : strlen(row->labels);
  const metric_label added = {label, value};
  buffer_append(&text, row->labels, before);
  bool rendered = metrics_render_labels(&text, &added, 1);
  buffer_append_format(&text, ",%s", row->labels + before);
  if (rendered && !text.failed)
    metrics_family_add_integer(family, buffer_view(&text), count);
}

static void collect_reasons(const model_rows *rows, metrics_sheet *sheet)
{
  static const char *const closed[BATCH_CLOSE_REASON_COUNT] = {
      [BATCH_CLOSED_FULL] = "full",   [BATCH_CLOSED_PREFERRED] = "preferred",
      [BATCH_CLOSED_DELAY] = "delay", [BATCH_CLOSED_SHAPE] = "shape",
      [BATCH_CLOSED_SIZE] = "size",   [BATCH_CLOSED_IDLE] = "idle",
  };
  metrics_family *failures = metrics_sheet_family(
      sheet, METRIC_COUNTER, "nv_inference_request_failure", "Requests answered with an error");
  metrics_family *batches = metrics_sheet_family(sheet, METRIC_COUNTER, "nereid_batch_closed_total",
                                                 "Batches by the reason that closed them");
  for (size_t i = 0; i < rows->count; i++) {
    const model_row *row = &rows->items[i];
    for (int r = 0; r < FAILURE_REASON_COUNT; r++)
      add_with_label(failures, row, "reason", failure_reason_labels[r],
                     load(&row->sum.failures[r]));
    for (int r = 0; r < BATCH_CLOSE_REASON_COUNT; r++)
      add_with_label(batches, row, "reason", closed[r], row->closed[r]);
  }
}

static void collect_mismatches(const model_rows *rows, metrics_sheet *sheet)
{
  metrics_family *family =
      metrics_sheet_family(sheet, METRIC_COUNTER, "nereid_output_mismatch_total",
                           "Outputs that were not as the model's configuration says");
  for (size_t i = 0; i < rows->count; i++) {
    const output_counts *mismatches = &rows->items[i].mismatches;
    for (size_t k = 0; k < mismatches->count; k++)
      add_with_label(family, &rows->items[i], "output", mismatches->items[k].output,
                     mismatches->items[k].count);
  }
}

static void collect_gauges(const model_rows *rows, metrics_sheet *sheet)
{
  metrics_family *pending =
      metrics_sheet_family(sheet, METRIC_GAUGE, "nv_inference_pending_request_count",
                           "Requests that wait for an instance");
  metrics_family *seconds = metrics_sheet_family(sheet, METRIC_GAUGE, "nv_model_load_duration_secs",
                                                 "How long the model took to load");
  for (size_t i = 0; i < rows->count; i++) {
    metrics_family_add_integer(pending, labels_of(&rows->items[i]), rows->items[i].pending);
    metrics_family_add(seconds, labels_of(&rows->items[i]), rows->items[i].load_seconds);
  }
}

// ---- histograms ----

#define MAX_BUCKETS 32

// `scale` turns the bounds and the sum into the unit that is shown.
static void add_histogram(metrics_family *family, const model_row *row, const uint64_t *bounds,
                          size_t bound_count, const _Atomic uint64_t *counts, double scale,
                          double sum)
{
  double shown[MAX_BUCKETS];
  uint64_t values[MAX_BUCKETS + 1];
  for (size_t i = 0; i < bound_count; i++)
    shown[i] = (double)bounds[i] * scale;
  for (size_t i = 0; i <= bound_count; i++)
    values[i] = load(&counts[i]);
  metrics_family_add_histogram(family, labels_of(row), shown, values, bound_count, sum);
}

// Durations in seconds, as Prometheus wants its histograms.
static const struct {
  const char *name;
  const char *help;
  size_t buckets;
  size_t sum_ns;
} durations[] = {
    {"nereid_request_duration_seconds", "Requests that succeeded, from start to end",
     COUNTER_OFFSET(request_histogram), COUNTER_OFFSET(success.ns)},
    {"nereid_queue_duration_seconds", "Waiting of requests for an instance",
     COUNTER_OFFSET(queue_histogram), COUNTER_OFFSET(queue.ns)},
    {"nereid_compute_infer_duration_seconds", "Computing of requests in an instance",
     COUNTER_OFFSET(compute_infer_histogram), COUNTER_OFFSET(compute_infer.ns)},
};

static void collect_durations(const model_rows *rows, metrics_sheet *sheet)
{
  for (size_t d = 0; d < sizeof(durations) / sizeof(durations[0]); d++) {
    metrics_family *family =
        metrics_sheet_family(sheet, METRIC_HISTOGRAM, durations[d].name, durations[d].help);
    for (size_t i = 0; i < rows->count; i++) {
      const char *sum = (const char *)&rows->items[i].sum;
      const duration_histogram *histogram = (const void *)(sum + durations[d].buckets);
      const _Atomic uint64_t *ns = (const void *)(sum + durations[d].sum_ns);
      add_histogram(family, &rows->items[i], statistics_duration_bounds_us,
                    STATISTICS_DURATION_BUCKETS, histogram->buckets, 1e-6, (double)load(ns) * 1e-9);
    }
  }
}

static void collect_histograms(const model_rows *rows, metrics_sheet *sheet)
{
  collect_durations(rows, sheet);
  metrics_family *sizes = metrics_sheet_family(sheet, METRIC_HISTOGRAM, "nereid_batch_size",
                                               "Rows of executed batches");
  metrics_family *first =
      metrics_sheet_family(sheet, METRIC_HISTOGRAM, "nv_inference_first_response_histogram_ms",
                           "Time to the first response of a request, in milliseconds");
  for (size_t i = 0; i < rows->count; i++) {
    const statistics *sum = &rows->items[i].sum;
    add_histogram(sizes, &rows->items[i], statistics_batch_bounds, STATISTICS_BATCH_BUCKETS,
                  sum->batch_histogram, 1, (double)load(&sum->batch_rows_sum));
    add_histogram(first, &rows->items[i], statistics_first_response_bounds_ms,
                  STATISTICS_FIRST_RESPONSE_BUCKETS, sum->first_response_histogram, 1,
                  (double)load(&sum->first_response_ms_sum));
  }
}

static void collect_log(metrics_sheet *sheet)
{
  static const slice no_labels = {0};
  metrics_family_add_integer(metrics_sheet_family(sheet, METRIC_COUNTER,
                                                  "nereid_log_dropped_lines_total",
                                                  "Log lines that could not be written"),
                             no_labels, log_dropped_lines());
}

static void collect(void *context, metrics_sheet *sheet)
{
  const model_metrics *metrics = context;
  model_rows rows = {0};
  server_visit_models(metrics->server, visit_model, &rows);
  if (rows.count > 0)
    qsort(rows.items, rows.count, sizeof(model_row), compare_rows);
  collect_counters(&rows, sheet);
  collect_reasons(&rows, sheet);
  collect_mismatches(&rows, sheet);
  collect_gauges(&rows, sheet);
  if (metrics->histograms)
    collect_histograms(&rows, sheet);
  collect_log(sheet);
  sheet->failed |= rows.failed;
  free_rows(&rows);
}

// ---- life ----

error *model_metrics_check(const server_options *options)
{
  for (size_t i = 0; i < options->metrics_settings.count; i++) {
    const setting *s = &options->metrics_settings.items[i];
    bool on = strcmp(s->value, "true") == 0;
    bool off = strcmp(s->value, "false") == 0;
    bool known = strcmp(s->name, "counter_latencies") == 0 ||
                 strcmp(s->name, "histogram_latencies") == 0 ||
                 strcmp(s->name, "summary_latencies") == 0;
    if (strcmp(s->name, "summary_quantiles") == 0)
      return error_new(ERROR_UNSUPPORTED,
                       "--metrics-config %s is not supported by nereid yet; its histograms are "
                       "always there",
                       s->name);
    if (!known)
      return error_new(ERROR_INVALID_ARG,
                       "--metrics-config: unknown setting '%s', expected counter_latencies, "
                       "histogram_latencies or summary_latencies",
                       s->name);
    if (!on && !off)
      return error_new(ERROR_INVALID_ARG,
                       "--metrics-config %s: invalid value '%s', expected true or false", s->name,
                       s->value);
    if ((strcmp(s->name, "summary_latencies") == 0 && on) ||
        (strcmp(s->name, "counter_latencies") == 0 && off))
      return error_new(ERROR_UNSUPPORTED, "--metrics-config %s=%s is not supported by nereid yet",
                       s->name, s->value);
  }
  return NULL;
}

error *model_metrics_new(server *server, model_metrics **result)
{
  const server_options *options = server_options_of(server);
  metrics_registry *registry = metrics_registry_global();
  model_metrics *metrics = calloc(1, sizeof(*metrics));
  if (metrics == NULL || registry == NULL) {
    free(metrics);
    return error_no_memory();
  }
  metrics->server = server;
  metrics->histograms = true;
  for (size_t i = 0; i < options->metrics_settings.count; i++)
    if (strcmp(options->metrics_settings.items[i].name, "histogram_latencies") == 0)
      metrics->histograms = strcmp(options->metrics_settings.items[i].value, "true") == 0;
  error *e = metrics_registry_add_collector(registry, collect, metrics, &metrics->collector);
  if (e == NULL && options->cpu_metrics)
    e = process_metrics_new(registry, "/proc", clock_system(), options->metrics_interval_ms,
                            &metrics->process);
  if (e != NULL) {
    model_metrics_free(metrics);
    return e;
  }
  *result = metrics;
  return NULL;
}

void model_metrics_free(model_metrics *metrics)
{
  if (metrics == NULL)
    return;
  process_metrics_free(metrics->process);
  metrics_registry_remove_collector(metrics_registry_global(), metrics->collector);
  free(metrics);
}
