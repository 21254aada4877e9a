// SPDX-License-Identifier: Apache-2.0
// Counters of one model version, for /stats and /metrics. Every instance thread writes its own
// block, so that counting never contends; readers sum the blocks. Events on other threads
// (refusals, cancellations) go to the model's shared block with atomic additions.
#ifndef NEREID_REQUEST_STATISTICS_H
#define NEREID_REQUEST_STATISTICS_H

#include "base/error.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Accepted requests that failed, as Triton counts them.
typedef enum failure_reason { // label values of nv_inference_request_failure
  FAILURE_REJECTED, // REJECTED: queued but not executed, as its timeout passed or the server stops
  FAILURE_CANCELED, // CANCELED
  FAILURE_BACKEND,  // BACKEND: the backend answered with an error
  FAILURE_OTHER,    // OTHER
  FAILURE_REASON_COUNT,
} failure_reason;

extern const char *const failure_reason_labels[FAILURE_REASON_COUNT];

// Requests refused before they were accepted; Triton does not count them. Label values of
// nereid_inference_refused_total.
typedef enum refused_reason {
  REFUSED_MALFORMED,  // malformed: deleted before it was submitted
  REFUSED_INVALID,    // invalid: it does not fit the model
  REFUSED_QUEUE_FULL, // queue_full
  REFUSED_LATENCY,    // latency: its answer would come after the model's latency objective
  REFUSED_STOPPING,   // stopping: the model is unloaded, or the server ends
  REFUSED_RESOURCES,  // resources: memory or threads are short
  REFUSED_REASON_COUNT,
} refused_reason;

extern const char *const refused_reason_labels[REFUSED_REASON_COUNT];

typedef struct duration_counter {
  _Atomic uint64_t count;
  _Atomic uint64_t ns;
} duration_counter;

// Upper bounds of the duration histograms, microseconds, ascending; a last bucket without bound
// follows.
#define STATISTICS_DURATION_BUCKETS 22
extern const uint64_t statistics_duration_bounds_us[STATISTICS_DURATION_BUCKETS];
// Upper bounds of the batch-size histogram: 1, 2, 4, … 1024, then no bound.
#define STATISTICS_BATCH_BUCKETS 11
extern const uint64_t statistics_batch_bounds[STATISTICS_BATCH_BUCKETS];

typedef struct duration_histogram {
  _Atomic uint64_t
      buckets[STATISTICS_DURATION_BUCKETS + 1]; // each counts its own range only, not cumulative
} duration_histogram;

typedef struct batch_counters { // one row of batch_stats
  _Atomic uint64_t count;       // executions with this batch size
  _Atomic uint64_t compute_input_ns;
  _Atomic uint64_t compute_infer_ns;
  _Atomic uint64_t compute_output_ns;
} batch_counters;

#define STATISTICS_BATCH_ROWS 129 // the most rows: batch sizes 0 to 127, and one row for all larger

// Only counters stand before last_inference_ms: they are summed as an array.
typedef struct statistics {
  duration_counter success; // whole request: from creation to its final response
  duration_counter failure;
  duration_counter queue;
  duration_counter compute_input;
  duration_counter compute_infer;
  duration_counter compute_output;
  duration_counter cache_hit;
  duration_counter cache_miss;
  _Atomic uint64_t inference_count; // rows
  _Atomic uint64_t execution_count; // calls into the backend
  _Atomic uint64_t failures[FAILURE_REASON_COUNT];
  _Atomic uint64_t refused[REFUSED_REASON_COUNT];
  duration_histogram request_histogram;
  duration_histogram queue_histogram;
  duration_histogram compute_infer_histogram;
  _Atomic uint64_t batch_histogram[STATISTICS_BATCH_BUCKETS + 1];
  _Atomic uint64_t batch_rows_sum;    // sum of executed batch sizes, for the histogram's _sum
  _Atomic uint64_t last_inference_ms; // since 1970; 0: none yet
  batch_counters *batch_rows; // indexed by the batch size, 0 to the largest; the last row is for
                              // all larger sizes
  size_t batch_row_count;
} statistics;

// Moments of one request, nanoseconds of CLOCK_MONOTONIC; 0 where the stage was not reached.
typedef struct request_times {
  uint64_t start;         // the request entered the core
  uint64_t queue_start;   // it entered the queue
  uint64_t compute_start; // an instance took it from the queue
  uint64_t compute_input_end;
  uint64_t compute_output_start;
  uint64_t compute_end;
  uint64_t end; // its final response was sent
} request_times;

// The counted parts of a request's life.
typedef enum latency {
  LATENCY_REQUEST, // all of it
  LATENCY_QUEUE,
  LATENCY_COMPUTE_INPUT,
  LATENCY_COMPUTE_INFER,
  LATENCY_COMPUTE_OUTPUT,
  LATENCY_COUNT,
} latency;

void request_latencies(const request_times *times, uint64_t ns[LATENCY_COUNT]);

// `max_batch_size` is the model's, 0 without batching. The only error is UNAVAILABLE: memory is
// short.
error *statistics_init(statistics *s, uint32_t max_batch_size);
void statistics_fini(statistics *s);

// Counts a request that succeeded. `single_writer`: the calling thread is the only one that writes
// to `s`.
void statistics_count_success(statistics *s, bool single_writer, const request_times *times,
                              uint64_t rows);
void statistics_count_failure(statistics *s, bool single_writer, failure_reason reason,
                              const request_times *times);
// Counts a request that a cache answered: a success, but no inference. Any thread. `look_up_ns` is
// the look-up's duration. `times` has start, queue_start and end; its compute_start is the begin of
// the look-up.
void statistics_count_cache_hit(statistics *s, const request_times *times, uint64_t look_up_ns);
// Counts a look-up without a hit; `ns` is the time for looking up and inserting. As in Triton it is
// added to the request's time if that was a success. Any thread.
void statistics_count_cache_miss(statistics *s, bool success, uint64_t ns);
// Counts a refused request; any thread.
void statistics_count_refusal(statistics *s, refused_reason reason);
// Counts one execution of `rows` rows and its three stages.
void statistics_count_execution(statistics *s, bool single_writer, uint64_t rows,
                                uint64_t compute_input_ns, uint64_t compute_infer_ns,
                                uint64_t compute_output_ns);

// Adds all counters of `from`, which no thread writes any more, to `sum`, which any thread may
// write.
void statistics_fold(statistics *sum, const statistics *from);
// Adds all counters of `from` to `sum`, which no other thread writes, except batch sizes for which
// `sum` has no row. May run at any time.
void statistics_add(statistics *sum, const statistics *from);

#endif
