// SPDX-License-Identifier: Apache-2.0
// Counters of a model version; statistics.h says which thread writes where.
#include "request/statistics.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

const char *const failure_reason_labels[FAILURE_REASON_COUNT] = {"REJECTED", "CANCELED", "BACKEND",
                                                                 "OTHER"};
const char *const refused_reason_labels[REFUSED_REASON_COUNT] = {
    "malformed", "invalid", "queue_full", "latency", "stopping", "resources"};

const uint64_t statistics_duration_bounds_us[STATISTICS_DURATION_BUCKETS] = {
    10,      20,      50,       100,      200,      500,       1000,   2000,
    5000,    10000,   20000,    50000,    100000,   200000,    500000, 1000000,
    2000000, 5000000, 10000000, 20000000, 50000000, 100000000,
};
const uint64_t statistics_batch_bounds[STATISTICS_BATCH_BUCKETS] = {1,  2,   4,   8,   16,  32,
                                                                    64, 128, 256, 512, 1024};

// With one writer a plain load and store is enough; readers see whole values.
static inline void add(_Atomic uint64_t *counter, bool single_writer, uint64_t amount)
{
  if (single_writer)
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + amount,
                          memory_order_relaxed);
  else
    atomic_fetch_add_explicit(counter, amount, memory_order_relaxed);
}

static inline uint64_t get(const _Atomic uint64_t *counter)
{
  return atomic_load_explicit(counter, memory_order_relaxed);
}

static inline void add_duration(duration_counter *counter, bool single_writer, uint64_t ns)
{
  add(&counter->count, single_writer, 1);
  add(&counter->ns, single_writer, ns);
}

static size_t find_bucket(const uint64_t *bounds, size_t count, uint64_t value)
{
  size_t low = 0, high = count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (value <= bounds[middle])
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

static void observe(duration_histogram *histogram, bool single_writer, uint64_t ns)
{
  size_t bucket =
      find_bucket(statistics_duration_bounds_us, STATISTICS_DURATION_BUCKETS, (ns + 999) / 1000);
  add(&histogram->buckets[bucket], single_writer, 1);
}

error *statistics_init(statistics *s, uint32_t max_batch_size)
{
  memset(s, 0, sizeof(*s));
  s->batch_row_count =
      max_batch_size >= STATISTICS_BATCH_ROWS - 1 ? STATISTICS_BATCH_ROWS : max_batch_size + 2;
  s->batch_rows = calloc(s->batch_row_count, sizeof(*s->batch_rows));
  return s->batch_rows == NULL ? error_no_memory() : NULL;
}

void statistics_fini(statistics *s)
{
  free(s->batch_rows);
  s->batch_rows = NULL;
}

static uint64_t elapsed(uint64_t from, uint64_t to)
{
  return to > from ? to - from : 0;
}

void request_latencies(const request_times *times, uint64_t ns[LATENCY_COUNT])
{
  ns[LATENCY_REQUEST] = elapsed(times->start, times->end);
  ns[LATENCY_QUEUE] = elapsed(times->queue_start, times->compute_start);
  ns[LATENCY_COMPUTE_INPUT] = elapsed(times->compute_start, times->compute_input_end);
  ns[LATENCY_COMPUTE_INFER] = elapsed(times->compute_input_end, times->compute_output_start);
  ns[LATENCY_COMPUTE_OUTPUT] = elapsed(times->compute_output_start, times->compute_end);
}

void statistics_count_success(statistics *s, bool single_writer, const request_times *times,
                              uint64_t rows)
{
  uint64_t ns[LATENCY_COUNT];
  request_latencies(times, ns);
  add_duration(&s->success, single_writer, ns[LATENCY_REQUEST]);
  add_duration(&s->queue, single_writer, ns[LATENCY_QUEUE]);
  add_duration(&s->compute_input, single_writer, ns[LATENCY_COMPUTE_INPUT]);
  add_duration(&s->compute_infer, single_writer, ns[LATENCY_COMPUTE_INFER]);
  add_duration(&s->compute_output, single_writer, ns[LATENCY_COMPUTE_OUTPUT]);
  add(&s->inference_count, single_writer, rows == 0 ? 1 : rows);
  observe(&s->request_histogram, single_writer, ns[LATENCY_REQUEST]);
  observe(&s->queue_histogram, single_writer, ns[LATENCY_QUEUE]);
  observe(&s->compute_infer_histogram, single_writer, ns[LATENCY_COMPUTE_INFER]);
}

void statistics_count_cache_hit(statistics *s, const request_times *times, uint64_t look_up_ns)
{
  uint64_t ns[LATENCY_COUNT];
  request_latencies(times, ns);
  add_duration(&s->success, false, ns[LATENCY_REQUEST]);
  add_duration(&s->queue, false, ns[LATENCY_QUEUE]);
  add_duration(&s->cache_hit, false, look_up_ns);
  observe(&s->request_histogram, false, ns[LATENCY_REQUEST]);
  observe(&s->queue_histogram, false, ns[LATENCY_QUEUE]);
}

void statistics_count_cache_miss(statistics *s, bool success, uint64_t ns)
{
  add_duration(&s->cache_miss, false, ns);
  if (success)
    add(&s->success.ns, false, ns);
}

void statistics_count_failure(statistics *s, bool single_writer, failure_reason reason,
                              const request_times *times)
{
  add(&s->failures[reason], single_writer, 1);
  add_duration(&s->failure, single_writer, elapsed(times->start, times->end));
}

void statistics_count_execution(statistics *s, bool single_writer, uint64_t rows,
                                uint64_t compute_input_ns, uint64_t compute_infer_ns,
                                uint64_t compute_output_ns)
{
  uint64_t counted = rows == 0 ? 1 : rows;
  size_t row = counted < s->batch_row_count ? (size_t)counted : s->batch_row_count - 1;
  batch_counters *batch = &s->batch_rows[row];
  add(&s->execution_count, single_writer, 1);
  atomic_store_explicit(&s->last_inference_ms, clock_realtime_ns() / 1000000u,
                        memory_order_relaxed);
  add(&batch->count, single_writer, 1);
  add(&batch->compute_input_ns, single_writer, compute_input_ns);
  add(&batch->compute_infer_ns, single_writer, compute_infer_ns);
  add(&batch->compute_output_ns, single_writer, compute_output_ns);
  add(&s->batch_histogram[find_bucket(statistics_batch_bounds, STATISTICS_BATCH_BUCKETS, counted)],
      single_writer, 1);
  add(&s->batch_rows_sum, single_writer, counted);
}

void statistics_count_refusal(statistics *s, refused_reason reason)
{
  add(&s->refused[reason], false, 1);
}

static void sum_counters(_Atomic uint64_t *sum, bool single_writer, const _Atomic uint64_t *from,
                         size_t count)
{
  for (size_t i = 0; i < count; i++)
    add(&sum[i], single_writer, get(&from[i]));
}

static void sum_all(statistics *sum, bool single_writer, const statistics *from)
{
  sum_counters((_Atomic uint64_t *)sum, single_writer, (const _Atomic uint64_t *)from,
               offsetof(statistics, last_inference_ms) / sizeof(_Atomic uint64_t));
  uint64_t last = get(&sum->last_inference_ms), other = get(&from->last_inference_ms);
  while (other > last &&
         !atomic_compare_exchange_weak_explicit(&sum->last_inference_ms, &last, other,
                                                memory_order_relaxed, memory_order_relaxed))
    ;
  size_t rows =
      from->batch_row_count < sum->batch_row_count ? from->batch_row_count : sum->batch_row_count;
  sum_counters((_Atomic uint64_t *)sum->batch_rows, single_writer,
               (const _Atomic uint64_t *)from->batch_rows,
               rows * (sizeof(batch_counters) / sizeof(_Atomic uint64_t)));
}

void statistics_add(statistics *sum, const statistics *from)
{
  sum_all(sum, true, from);
}

void statistics_fold(statistics *sum, const statistics *from)
{
  sum_all(sum, false, from);
}
