// SPDX-License-Identifier: Apache-2.0
// Counts first responses by their buckets. Runs where a response is sent.
#include "request/response_histogram.h"

#include <stdlib.h>
#include <string.h>

response_histogram *response_histogram_new(const double *bounds, size_t count)
{
  response_histogram *h = calloc(1, sizeof(*h));
  if (h == NULL)
    return NULL;
  h->bound_count = count;
  h->bounds = calloc(count + 1, sizeof(*h->bounds));
  h->counts = calloc(count + 1, sizeof(*h->counts));
  if (h->bounds == NULL || h->counts == NULL) {
    response_histogram_free(h);
    return NULL;
  }
  memcpy(h->bounds, bounds, count * sizeof(*bounds));
  return h;
}

void response_histogram_free(response_histogram *h)
{
  if (h == NULL)
    return;
  free(h->bounds);
  free(h->counts);
  free(h);
}

void response_histogram_add(response_histogram *h, uint64_t elapsed_ns)
{
  uint64_t ms = elapsed_ns / 1000000u;
  size_t bucket = 0;
  while (bucket < h->bound_count && (double)ms > h->bounds[bucket])
    bucket++;
  atomic_fetch_add_explicit(&h->counts[bucket], 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&h->sum_ms, ms, memory_order_relaxed);
}
