// SPDX-License-Identifier: Apache-2.0
// Collects by model version: during a reload two copies of a version count together. Runs on the
// scraper's thread; counters are read without a lock (request/statistics.h).
#include "core/model_metrics.h"

#include "backend/frameworks.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/string_map.h"
#include "core/demand.h"
#include "core/gpu_metrics.h"
#include "core/model.h"
#include "core/model_cache.h"
#include "core/model_memory.h"
#include "core/model_rows.h"
#include "core/routing_metrics.h"
#include "core/server_state.h"
#include "metrics/process_metrics.h"
#include "metrics/registry.h"

#include <assert.h>
#include <stdlib.h>

struct model_metrics {
  server *server;
  const metric_settings *settings; // the server's
  metrics_collector *collector;
  process_metrics *process;
  gpu_metrics *gpus;
};

static const slice no_labels = {0};

static uint64_t load(const _Atomic uint64_t *counter)
{
  return atomic_load_explicit(counter, memory_order_relaxed);
}

// ---- counters and gauges: names and help are Triton's ----

#define COUNTER_OFFSET(field) offsetof(statistics, field)
#define COUNT(array)          (sizeof(array) / sizeof((array)[0]))

// A count in the statistics.
typedef struct counted_family {
  const char *name;
  const char *help;
  size_t offset;
} counted_family;

static const counted_family counters[] = {
    {"nv_inference_request_success", "Number of successful inference requests, all batch sizes",
     COUNTER_OFFSET(success.count)},
    {"nv_inference_count", "Number of inferences performed (does not include cached requests)",
     COUNTER_OFFSET(inference_count)},
    {"nv_inference_exec_count",
     "Number of model executions performed (does not include cached requests)",
     COUNTER_OFFSET(execution_count)},
};

// Nanoseconds in the statistics, shown as microseconds.
static const counted_family duration_counters[] = {
    {"nv_inference_request_duration_us",
     "Cumulative inference request duration in microseconds (includes cached requests)",
     COUNTER_OFFSET(success.ns)},
    {"nv_inference_queue_duration_us",
     "Cumulative inference queuing duration in microseconds (includes cached requests)",
     COUNTER_OFFSET(queue.ns)},
    {"nv_inference_compute_input_duration_us",
     "Cumulative compute input duration in microseconds (does not include cached requests)",
     COUNTER_OFFSET(compute_input.ns)},
    {"nv_inference_compute_infer_duration_us",
     "Cumulative compute inference duration in microseconds (does not include cached requests)",
     COUNTER_OFFSET(compute_infer.ns)},
    {"nv_inference_compute_output_duration_us",
     "Cumulative inference compute output duration in microseconds (does not include cached "
     "requests)",
     COUNTER_OFFSET(compute_output.ns)},
};

// For models that use the response cache.
static const counted_family cache_counters[] = {
    {"nv_cache_num_hits_per_model", "Number of cache hits per model",
     COUNTER_OFFSET(cache_hit.count)},
    {"nv_cache_num_misses_per_model", "Number of cache misses per model",
     COUNTER_OFFSET(cache_miss.count)},
};

static const counted_family cache_duration_counters[] = {
    {"nv_cache_hit_duration_per_model", "Total cache hit duration per model, in microseconds",
     COUNTER_OFFSET(cache_hit.ns)},
    {"nv_cache_miss_duration_per_model",
     "Total cache miss (insert+lookup) duration per model, in microseconds",
     COUNTER_OFFSET(cache_miss.ns)},
};

// As in Triton, values of a model as a whole are in the row that belongs to no GPU.
static bool is_whole(const model_row *row)
{
  return row->device < 0;
}

static bool is_cached(const model_row *row)
{
  return row->copies[0].m->cache != NULL && is_whole(row);
}

static const _Atomic uint64_t *counter_of(const model_row *row, size_t offset)
{
  return (const void *)((const char *)&row->sum + offset);
}

static void collect_counters(const model_rows *rows, const counted_family *families, size_t count,
                             uint64_t divisor, bool of_cache, metrics_sheet *sheet)
{
  for (size_t f = 0; f < count; f++) {
    metrics_family *family =
        metrics_sheet_family(sheet, METRIC_COUNTER, families[f].name, families[f].help);
    for (size_t i = 0; i < rows->count; i++)
      if (!of_cache || is_cached(&rows->items[i]))
        metrics_family_add_integer(family, rows->items[i].labels,
                                   load(counter_of(&rows->items[i], families[f].offset)) / divisor);
  }
}

static void collect_failures(const model_rows *rows, metrics_sheet *sheet)
{
  metrics_family *family =
      metrics_sheet_family(sheet, METRIC_COUNTER, "nv_inference_request_failure",
                           "Number of failed inference requests, all batch sizes");
  for (size_t i = 0; i < rows->count; i++)
    for (int r = 0; r < FAILURE_REASON_COUNT; r++)
      metrics_family_add_with(family, rows->items[i].labels,
                              (metric_label){"reason", failure_reason_labels[r]},
                              load(&rows->items[i].sum.failures[r]));
}

// Shown from the first refusal on.
static void collect_refusals(const model_rows *rows, metrics_sheet *sheet)
{
  metrics_family *family = metrics_sheet_family(
      sheet, METRIC_COUNTER, "nereid_inference_refused_total",
      "Inferences that were refused before they became requests, by the reason");
  for (size_t i = 0; i < rows->count; i++) {
    const _Atomic uint64_t *refused = rows->items[i].sum.refused;
    uint64_t total = 0;
    for (int r = 0; r < REFUSED_REASON_COUNT; r++)
      total += load(&refused[r]);
    for (int r = 0; total > 0 && r < REFUSED_REASON_COUNT; r++)
      if (r != REFUSED_LATENCY || rows->items[i].copies[0].m->shared.objective_ns != 0)
        metrics_family_add_with(family, rows->items[i].labels,
                                (metric_label){"reason", refused_reason_labels[r]},
                                load(&refused[r]));
  }
}

// For models that batch: elsewhere each execution is a full batch. A reason is shown from its first
// batch on.
static void collect_batches(const model_rows *rows, metrics_sheet *sheet)
{
  static const char *const reasons[BATCH_CLOSE_REASON_COUNT] = {
      [BATCH_CLOSED_FULL] = "full",         [BATCH_CLOSED_PREFERRED] = "preferred",
      [BATCH_CLOSED_DELAY] = "delay",       [BATCH_CLOSED_SHAPE] = "shape",
      [BATCH_CLOSED_SIZE] = "size",         [BATCH_CLOSED_IDLE] = "idle",
      [BATCH_CLOSED_STRATEGY] = "strategy",
  };
  metrics_family *family = metrics_sheet_family(sheet, METRIC_COUNTER, "nereid_batch_closed_total",
                                                "Batches by the reason that closed them");
  for (size_t i = 0; i < rows->count; i++) {
    const model_row *row = &rows->items[i];
    const model *m = row->copies[0].m;
    bool batches = m->shared.sequences != NULL ||
                   m->config->scheduling_choice_case ==
                       INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING;
    for (int r = 0; batches && r < BATCH_CLOSE_REASON_COUNT; r++)
      if (row->closed[r] > 0)
        metrics_family_add_with(family, row->labels, (metric_label){"reason", reasons[r]},
                                row->closed[r]);
  }
}

// Adds to `sums`, by output, how many were not as configured. False: memory is short.
static bool add_mismatches(const model *m, string_map *sums)
{
  const model_signature *s = &m->target.signature;
  for (size_t i = 0; i <= s->output_count; i++) {
    slice output = i < s->output_count ? s->outputs[i].name : SLICE("(not configured)");
    uint64_t sum = (uintptr_t)string_map_get(sums, output) + load(&s->output_mismatches->counts[i]);
    if (sum > 0 && !string_map_put(sums, output, (void *)(uintptr_t)sum))
      return false;
  }
  return true;
}

// Shown from the first mismatch on. A version is left out when memory is short.
static void collect_mismatches(const model_rows *rows, metrics_sheet *sheet)
{
  metrics_family *family =
      metrics_sheet_family(sheet, METRIC_COUNTER, "nereid_output_mismatch_total",
                           "Outputs that were not as the model's configuration says");
  for (size_t i = 0; i < rows->count; i++) {
    const model_row *row = &rows->items[i];
    string_map sums = {0};
    bool complete = is_whole(row);
    for (size_t c = 0; complete && c < row->copy_count; c++)
      complete = add_mismatches(row->copies[c].m, &sums);
    const string_map_entry *sum;
    for (size_t at = 0; complete && (sum = string_map_walk(&sums, &at)) != NULL;)
      metrics_family_add_with(family, row->labels, (metric_label){"output", sum->key},
                              (uintptr_t)sum->value);
    string_map_fini(&sums);
  }
}

static uint64_t memory_of(const model_row *row)
{
  uint64_t bytes = 0;
  for (size_t c = 0; c < row->copy_count; c++) {
    model_memory_update(row->copies[c].m);
    bytes += model_memory_bytes(row->copies[c].m);
  }
  return bytes;
}

static double load_seconds(const model_row *row)
{
  return (double)atomic_load_explicit(&row->copies[0].m->load_ns, memory_order_relaxed) / 1e9;
}

static void collect_gauges(const model_rows *rows, metrics_sheet *sheet)
{
  metrics_family *pending = metrics_sheet_family(
      sheet, METRIC_GAUGE, "nv_inference_pending_request_count",
      "Instantaneous number of pending requests awaiting execution per-model.");
  metrics_family *seconds = metrics_sheet_family(sheet, METRIC_GAUGE, "nv_model_load_duration_secs",
                                                 "Model load time in seconds");
  metrics_family *memory = metrics_sheet_family(sheet, METRIC_GAUGE, "nereid_model_memory_bytes",
                                                "Memory of the host that a model takes");
  for (size_t i = 0; i < rows->count; i++) {
    if (!is_whole(&rows->items[i]))
      continue;
    metrics_family_add_integer(pending, rows->items[i].labels, rows->items[i].pending);
    metrics_family_add(seconds, rows->items[i].labels, load_seconds(&rows->items[i]));
    metrics_family_add_integer(memory, rows->items[i].labels, memory_of(&rows->items[i]));
  }
}

// The last choices of batchers with a latency objective.
static void collect_choices(const model_rows *rows, metrics_sheet *sheet)
{
  metrics_family *batch =
      metrics_sheet_family(sheet, METRIC_GAUGE, "nereid_latency_batch_rows",
                           "Rows of a batch that a model with a latency objective forms at most");
  for (size_t i = 0; i < rows->count; i++) {
    const model *m = rows->items[i].copies[0].m;
    if (m->shared.objective_ns == 0 || !is_whole(&rows->items[i]))
      continue;
    metrics_family_add_integer(batch, rows->items[i].labels,
                               scheduler_latency(m->shared.scheduler, 1).choice.max_rows);
  }
}

// ---- histograms: shown from a model's first request on ----

#define MAX_BUCKETS 32

// How counts become a histogram's samples.
typedef struct bucketing {
  const uint64_t *bounds; // of the counts
  size_t count;
  double unit;           // bounds are divided by it when shown
  const uint64_t *shown; // the bounds to show; NULL: all
  size_t shown_count;
} bucketing;

static void add_histogram(metrics_family *family, const model_row *row, const bucketing *way,
                          const _Atomic uint64_t *counts, double sum)
{
  double shown[MAX_BUCKETS];
  uint64_t values[MAX_BUCKETS + 1] = {0};
  size_t bucket = 0;
  for (size_t i = 0; i < way->count; i++) {
    values[bucket] += load(&counts[i]);
    if (way->shown != NULL && (bucket == way->shown_count || way->bounds[i] != way->shown[bucket]))
      continue;
    shown[bucket++] = (double)way->bounds[i] / way->unit;
  }
  assert(bucket == (way->shown != NULL ? way->shown_count : way->count));
  values[bucket] += load(&counts[way->count]);
  metrics_family_add_histogram(family, row->labels, shown, values, bucket, sum);
}

// Durations in seconds, as Prometheus wants its histograms.
static const struct {
  const char *name;
  const char *help;
  size_t buckets;
  size_t sum_ns;
  bool is_few; // shown by default, with few buckets
} durations[] = {
    {"nereid_request_duration_seconds", "Requests that succeeded, from start to end",
     COUNTER_OFFSET(request_histogram), COUNTER_OFFSET(success.ns), true},
    {"nereid_queue_duration_seconds", "Waiting of requests for an instance",
     COUNTER_OFFSET(queue_histogram), COUNTER_OFFSET(queue.ns), false},
    {"nereid_compute_infer_duration_seconds", "Computing of requests in an instance",
     COUNTER_OFFSET(compute_infer_histogram), COUNTER_OFFSET(compute_infer.ns), false},
};

// One bound for each power of ten, so that a scrape of 5,000 models in use stays below 8 MB. The
// sum, and nereid_histograms=all, tell more about durations below 10 ms.
static const uint64_t few_bounds_us[] = {10000, 100000, 1000000};

static const bucketing few_durations = {statistics_duration_bounds_us, STATISTICS_DURATION_BUCKETS,
                                        1e6, few_bounds_us,
                                        sizeof(few_bounds_us) / sizeof(few_bounds_us[0])};
static const bucketing all_durations = {statistics_duration_bounds_us, STATISTICS_DURATION_BUCKETS,
                                        1e6, NULL, 0};
static const bucketing batch_sizes = {statistics_batch_bounds, STATISTICS_BATCH_BUCKETS, 1, NULL,
                                      0};

static void collect_durations(const model_rows *rows, bool all, metrics_sheet *sheet)
{
  for (size_t d = 0; d < sizeof(durations) / sizeof(durations[0]); d++) {
    if (!all && !durations[d].is_few)
      continue;
    metrics_family *family =
        metrics_sheet_family(sheet, METRIC_HISTOGRAM, durations[d].name, durations[d].help);
    for (size_t i = 0; i < rows->count; i++) {
      const model_row *row = &rows->items[i];
      const duration_histogram *histogram = (const void *)counter_of(row, durations[d].buckets);
      if (row->was_used)
        add_histogram(family, row, all ? &all_durations : &few_durations, histogram->buckets,
                      (double)load(counter_of(row, durations[d].sum_ns)) / 1e9);
    }
  }
}

static void collect_batch_sizes(const model_rows *rows, metrics_sheet *sheet)
{
  metrics_family *family = metrics_sheet_family(sheet, METRIC_HISTOGRAM, "nereid_batch_size",
                                                "Rows of executed batches");
  for (size_t i = 0; i < rows->count; i++)
    if (rows->items[i].was_used)
      add_histogram(family, &rows->items[i], &batch_sizes, rows->items[i].sum.batch_histogram,
                    (double)load(&rows->items[i].sum.batch_rows_sum));
}

// Shows the newest copy, since a reload may have changed the bounds. With histogram_latencies,
// models that were not used have the histogram too, as in Triton.
static void collect_first_responses(const model_rows *rows, bool unused, metrics_sheet *sheet)
{
  metrics_family *family =
      metrics_sheet_family(sheet, METRIC_HISTOGRAM, "nv_inference_first_response_histogram_ms",
                           "Duration from request to first response in milliseconds");
  for (size_t i = 0; i < rows->count; i++) {
    if (!is_whole(&rows->items[i]) || (!unused && !rows->items[i].was_used))
      continue;
    const response_histogram *h = rows->items[i].copies[0].m->target.first_response;
    uint64_t *counts AUTO_FREE = calloc(h->bound_count + 1, sizeof(*counts));
    for (size_t b = 0; counts != NULL && b <= h->bound_count; b++)
      counts[b] = load(&h->counts[b]);
    if (counts != NULL)
      metrics_family_add_histogram(family, rows->items[i].labels, h->bounds, counts, h->bound_count,
                                   (double)load(&h->sum_ms));
  }
}

static void collect_histograms(const model_rows *rows, const metric_settings *settings,
                               metrics_sheet *sheet)
{
  bool all = settings->histograms == HISTOGRAMS_ALL;
  if (settings->histograms != HISTOGRAMS_NONE)
    collect_durations(rows, all, sheet);
  if (all)
    collect_batch_sizes(rows, sheet);
  if (all || settings->first_response)
    collect_first_responses(rows, settings->first_response, sheet);
}

// ---- summaries ----

// The quantiles that a summary shows: a latency's, or the cache's.
typedef enum shown_quantiles {
  QUANTILES_OF_HITS = LATENCY_COUNT,
  QUANTILES_OF_MISSES,
} shown_quantiles;

static const struct {
  const char *name;
  const char *help;
  unsigned quantiles;
  size_t counter; // a duration_counter
} summaries[] = {
    {"nv_inference_request_summary_us",
     "Summary of inference request duration in microseconds (includes cached requests)",
     LATENCY_REQUEST, COUNTER_OFFSET(success)},
    {"nv_inference_queue_summary_us",
     "Summary of inference queuing duration in microseconds (includes cached requests)",
     LATENCY_QUEUE, COUNTER_OFFSET(queue)},
    {"nv_inference_compute_input_summary_us",
     "Cumulative compute input duration in microseconds (does not include cached requests)",
     LATENCY_COMPUTE_INPUT, COUNTER_OFFSET(compute_input)},
    {"nv_inference_compute_infer_summary_us",
     "Cumulative compute inference duration in microseconds (does not include cached requests)",
     LATENCY_COMPUTE_INFER, COUNTER_OFFSET(compute_infer)},
    {"nv_inference_compute_output_summary_us",
     "Cumulative inference compute output duration in microseconds (does not include cached "
     "requests)",
     LATENCY_COMPUTE_OUTPUT, COUNTER_OFFSET(compute_output)},
    {"nv_cache_hit_summary_per_model",
     "Summary of cache hit counts/durations per model, in microseconds.", QUANTILES_OF_HITS,
     COUNTER_OFFSET(cache_hit)},
    {"nv_cache_miss_summary_per_model",
     "Summary of cache miss counts/durations per model, in microseconds.", QUANTILES_OF_MISSES,
     COUNTER_OFFSET(cache_miss)},
};

// NULL: the model does not have them.
static const sliding_quantiles *quantiles_of(const model *m, size_t summary)
{
  unsigned which = summaries[summary].quantiles;
  if (which < LATENCY_COUNT)
    return &m->target.summaries->of[which];
  if (m->cache == NULL)
    return NULL;
  const cache_summaries *of_cache = model_cache_summaries(m->cache);
  return which == QUANTILES_OF_HITS ? &of_cache->hit : &of_cache->miss;
}

// Memory for a summary, reused for each.
typedef struct summary_space {
  const metric_settings *settings;
  quantile_counts counts;
  double *values; // one for each quantile
} summary_space;

// Quantiles are the whole model's, so count and sum are too.
static uint64_t total_of(const model_row *row, size_t counter)
{
  uint64_t sum = 0;
  for (size_t i = 0; i <= row->gpus; i++)
    sum += load(counter_of(&row[i], counter));
  return sum;
}

static void add_summary(metrics_family *family, const model_row *row, size_t summary,
                        summary_space *space)
{
  const metric_settings *settings = space->settings;
  uint64_t now = clock_monotonic_ns();
  space->counts = (quantile_counts){0};
  for (size_t c = 0; c < row->copy_count; c++) {
    const sliding_quantiles *quantiles = quantiles_of(row->copies[c].m, summary);
    if (quantiles != NULL)
      sliding_quantiles_collect(quantiles, now, &space->counts);
  }
  for (size_t q = 0; q < settings->quantile_count; q++)
    space->values[q] = quantile_counts_find(&space->counts, settings->quantiles[q]);
  size_t counter = summaries[summary].counter;
  metrics_family_add_summary(
      family, row->labels, settings->quantiles, space->values, settings->quantile_count,
      total_of(row, counter + offsetof(duration_counter, count)),
      (double)(total_of(row, counter + offsetof(duration_counter, ns)) / 1000));
}

static void collect_summaries(const model_rows *rows, const metric_settings *settings,
                              metrics_sheet *sheet)
{
  double *values AUTO_FREE = calloc(settings->quantile_count, sizeof(*values));
  summary_space *space AUTO_FREE = malloc(sizeof(*space));
  if (values == NULL || space == NULL) {
    sheet->failed = true;
    return;
  }
  space->settings = settings;
  space->values = values;
  for (size_t s = 0; s < sizeof(summaries) / sizeof(summaries[0]); s++) {
    metrics_family *family =
        metrics_sheet_family(sheet, METRIC_SUMMARY, summaries[s].name, summaries[s].help);
    for (size_t i = 0; i < rows->count; i++)
      if (is_whole(&rows->items[i]) &&
          (summaries[s].quantiles < LATENCY_COUNT || is_cached(&rows->items[i])))
        add_summary(family, &rows->items[i], s, space);
  }
}

// ---- what belongs to no model ----

// For servers that load on demand.
static void collect_demand(demand *d, metrics_sheet *sheet)
{
  demand_counts counts;
  if (d == NULL)
    return;
  demand_count(d, &counts);
  const struct {
    metric_kind kind;
    const char *name, *help;
    uint64_t value;
  } rows[] = {
      {METRIC_COUNTER, "nereid_demand_loads_total", "Models that were loaded on demand",
       counts.loads},
      {METRIC_COUNTER, "nereid_demand_failures_total", "Loads on demand that failed",
       counts.failures},
      {METRIC_COUNTER, "nereid_demand_evictions_total",
       "Models that were unloaded for their memory", counts.evictions},
      {METRIC_GAUGE, "nereid_demand_waiting_requests", "Requests that wait for a model to load",
       counts.waiting},
      {METRIC_GAUGE, "nereid_demand_budget_bytes", "What models may take; 0: any",
       counts.budget_bytes},
      {METRIC_GAUGE, "nereid_demand_used_bytes", "What loaded models take", counts.used_bytes},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
    metrics_family_add_integer(
        metrics_sheet_process_family(sheet, rows[i].kind, rows[i].name, rows[i].help), no_labels,
        rows[i].value);
}

static void add_framework(void *context, const framework_record *f)
{
  AUTO_BUFFER buffer labels = BUFFER_EMPTY;
  const metric_label list[] = {
      {"backend", f->backend}, {"framework", f->name}, {"path", f->path}, {"version", f->version}};
  if (metrics_render_labels(&labels, list, COUNT(list)))
    metrics_family_add(context, buffer_view(&labels), (double)f->open_ns / 1e9);
}

static void collect_frameworks(metrics_sheet *sheet)
{
  metrics_family *family = metrics_sheet_process_family(
      sheet, METRIC_GAUGE, "nereid_framework_open_seconds",
      "How long it took a backend to open the library that it runs models on");
  if (family != NULL)
    frameworks_visit(add_framework, family);
}

static void collect_log(metrics_sheet *sheet)
{
  metrics_family_add_integer(metrics_sheet_process_family(sheet, METRIC_COUNTER,
                                                          "nereid_log_dropped_lines_total",
                                                          "Log lines that could not be written"),
                             no_labels, log_dropped_lines());
}

static void collect(void *context, metrics_sheet *sheet)
{
  const model_metrics *metrics = context;
  model_rows rows;
  sheet->failed |= !model_rows_init(&rows, &metrics->server->live);
  collect_counters(&rows, counters, COUNT(counters), 1, false, sheet);
  collect_counters(&rows, cache_counters, COUNT(cache_counters), 1, true, sheet);
  collect_failures(&rows, sheet);
  if (metrics->settings->counters) {
    collect_counters(&rows, duration_counters, COUNT(duration_counters), 1000, false, sheet);
    collect_counters(&rows, cache_duration_counters, COUNT(cache_duration_counters), 1000, true,
                     sheet);
  }
  collect_refusals(&rows, sheet);
  collect_batches(&rows, sheet);
  collect_mismatches(&rows, sheet);
  collect_gauges(&rows, sheet);
  collect_choices(&rows, sheet);
  collect_histograms(&rows, metrics->settings, sheet);
  if (metrics->settings->summaries)
    collect_summaries(&rows, metrics->settings, sheet);
  routing_metrics_collect(&metrics->server->models, sheet);
  collect_demand(metrics->server->demand, sheet);
  rate_limiter_collect(metrics->server->environment.rate_limiter, sheet);
  collect_frameworks(sheet);
  collect_log(sheet);
  model_rows_fini(&rows);
}

// ---- life ----

error *model_metrics_new(server *server, model_metrics **result)
{
  const server_options *options = &server->options;
  metrics_registry *registry = metrics_registry_global();
  model_metrics *metrics = calloc(1, sizeof(*metrics));
  if (metrics == NULL)
    return error_no_memory();
  metrics->server = server;
  metrics->settings = &server->metric_settings;
  error *e = metrics_registry_add_collector(registry, collect, metrics, &metrics->collector);
  if (e == NULL && options->cpu_metrics)
    e = process_metrics_new(registry, "/proc", clock_system(), options->metrics_interval_ms,
                            &metrics->process);
  if (e == NULL)
    e = gpu_metrics_new(server->environment.gpus, options->gpu_metrics,
                        options->metrics_interval_ms, options->pinned_memory_pool_bytes,
                        &metrics->gpus);
  if (e != NULL) {
    model_metrics_free(metrics);
    return e;
  }
  *result = metrics;
  return NULL;
}

void model_metrics_await(model_metrics *metrics)
{
  if (metrics != NULL)
    gpu_metrics_await(metrics->gpus);
}

void model_metrics_free(model_metrics *metrics)
{
  if (metrics == NULL)
    return;
  gpu_metrics_free(metrics->gpus);
  process_metrics_free(metrics->process);
  metrics_registry_remove_collector(metrics_registry_global(), metrics->collector);
  free(metrics);
}
