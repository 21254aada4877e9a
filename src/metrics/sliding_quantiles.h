// SPDX-License-Identifier: Apache-2.0
// Quantiles of what was observed of late, without keeping the observations: a histogram whose
// buckets grow with the value, one for each slice of time (the log-linear buckets of
// HdrHistogram, see also Masson, Rim, Lee: "DDSketch", VLDB 2019). A quantile is the sample of that
// rank, told within SLIDING_QUANTILES_ERROR of its value; below 128 it is exact. Added to by any
// thread without a lock, read by the scraper's.
#ifndef NEREID_METRICS_SLIDING_QUANTILES_H
#define NEREID_METRICS_SLIDING_QUANTILES_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

// As the summaries of Triton: five slices of 12 seconds, so that what counts is 48 to 60 seconds
// old at most.
#define SLIDING_QUANTILES_SLICES   5
#define SLIDING_QUANTILES_SLICE_NS UINT64_C(12000000000)
#define SLIDING_QUANTILES_ERROR    (1.0 / 128) // of the value

#define QUANTILE_BLOCK_BUCKETS 64
#define QUANTILE_BLOCKS        35 // for values below 2^40; a larger one counts as that

typedef struct quantile_block { // the buckets of values from 2^n to 2^(n+1)
  _Atomic uint32_t counts[QUANTILE_BLOCK_BUCKETS];
} quantile_block;

typedef struct quantile_slice {
  _Atomic uint64_t epoch;                            // which slice of time this is
  _Atomic(quantile_block *) blocks[QUANTILE_BLOCKS]; // made when a value comes that needs one
} quantile_slice;

typedef struct sliding_quantiles { // all zero at first
  quantile_slice slices[SLIDING_QUANTILES_SLICES];
} sliding_quantiles;

void sliding_quantiles_fini(sliding_quantiles *s);

// Adds an observation. One that meets the moment in which a slice is cleared for its next use is
// left out.
void sliding_quantiles_add(sliding_quantiles *s, uint64_t now_ns, uint64_t value);

// What several estimators hold together, for reading.
typedef struct quantile_counts {
  uint64_t total;
  uint64_t counts[QUANTILE_BLOCKS * QUANTILE_BLOCK_BUCKETS];
} quantile_counts;

void sliding_quantiles_collect(const sliding_quantiles *s, uint64_t now_ns, quantile_counts *sum);

// The value of that rank: the smallest from 0 down, the largest from 1 up. NaN where nothing was
// observed.
double quantile_counts_find(const quantile_counts *sum, double quantile);

#endif
