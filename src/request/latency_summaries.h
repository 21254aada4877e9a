// SPDX-License-Identifier: Apache-2.0
// Quantiles of a model's latencies of late; only where --metrics-config summary_latencies=true asks
// for them. Added to by whoever ends a request, read by the scraper's thread; no lock.
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
// One that a cache answered: nothing was computed.
void latency_summaries_add_hit(latency_summaries *s, const request_times *times);

#endif
