// SPDX-License-Identifier: Apache-2.0
// Quantiles of a model's recent latencies, kept only with --metrics-config summary_latencies=true.
// The thread that ends a request adds to them, the scraper's thread reads them; no lock.
#ifndef NEREID_REQUEST_LATENCY_SUMMARIES_H
#define NEREID_REQUEST_LATENCY_SUMMARIES_H

#include "metrics/sliding_quantiles.h"
#include "request/statistics.h"

typedef struct latency_summaries {
  sliding_quantiles of[LATENCY_COUNT]; // microseconds
} latency_summaries;

latency_summaries *latency_summaries_new(void);    // NULL: memory is short
void latency_summaries_free(latency_summaries *s); // NULL is allowed

// Counts a request that succeeded, at its end.
void latency_summaries_add(latency_summaries *s, const request_times *times);
// Counts a request that a cache answered, without computation.
void latency_summaries_add_hit(latency_summaries *s, const request_times *times);

#endif
