// SPDX-License-Identifier: Apache-2.0
// The times until the first responses of a model's requests:
// nv_inference_first_response_histogram_ms. The model's configuration may set the buckets. The
// thread that sends a response adds to it, the scraper's thread reads it; no lock.
#ifndef NEREID_REQUEST_RESPONSE_HISTOGRAM_H
#define NEREID_REQUEST_RESPONSE_HISTOGRAM_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

typedef struct response_histogram {
  _Atomic uint64_t sum_ms;
  _Atomic uint64_t *counts; // bound_count + 1, each for its own range only
  size_t bound_count;
  double *bounds; // upper bounds, milliseconds, ascending
} response_histogram;

response_histogram *response_histogram_new(const double *bounds, size_t count); // NULL: no memory
void response_histogram_free(response_histogram *h);                            // NULL is allowed

// Rounds down to whole milliseconds, as Triton.
void response_histogram_add(response_histogram *h, uint64_t elapsed_ns);

#endif
