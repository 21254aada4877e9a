// SPDX-License-Identifier: Apache-2.0
// How long requests of a model waited for their first response: nv_inference_first_response_
// histogram_ms, whose buckets the model's configuration may set. Added to by whoever sends a
// response, read by the scraper's thread; no lock.
#ifndef NEREID_REQUEST_RESPONSE_HISTOGRAM_H
#define NEREID_REQUEST_RESPONSE_HISTOGRAM_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

typedef struct response_histogram {
  _Atomic uint64_t sum_ms;
  _Atomic uint64_t *counts; // bound_count + 1, each for its own range only
  size_t bound_count;
  double *bounds; // upper ones, milliseconds, ascending
} response_histogram;

response_histogram *response_histogram_new(const double *bounds, size_t count); // NULL: no memory
void response_histogram_free(response_histogram *h);                            // NULL is allowed

// Whole milliseconds count, as in Triton.
void response_histogram_add(response_histogram *h, uint64_t elapsed_ns);

#endif
