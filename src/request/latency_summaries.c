// SPDX-License-Identifier: Apache-2.0
// One estimator for each latency. Runs where a request's success is counted.
#include "request/latency_summaries.h"

#include <stdlib.h>

latency_summaries *latency_summaries_new(void)
{
  return calloc(1, sizeof(latency_summaries));
}

void latency_summaries_free(latency_summaries *s)
{
  for (size_t i = 0; s != NULL && i < LATENCY_COUNT; i++)
    sliding_quantiles_fini(&s->of[i]);
  free(s);
}

static void add(latency_summaries *s, const request_times *times, size_t count)
{
  uint64_t ns[LATENCY_COUNT];
  request_latencies(times, ns);
  for (size_t i = 0; i < count; i++)
    sliding_quantiles_add(&s->of[i], times->end, ns[i] / 1000);
}

void latency_summaries_add(latency_summaries *s, const request_times *times)
{
  add(s, times, LATENCY_COUNT);
}

void latency_summaries_add_hit(latency_summaries *s, const request_times *times)
{
  _Static_assert(LATENCY_REQUEST == 0 && LATENCY_QUEUE == 1, "these two come first");
  add(s, times, LATENCY_QUEUE + 1);
}
