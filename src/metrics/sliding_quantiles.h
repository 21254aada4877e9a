// SPDX-License-Identifier: Apache-2.0
// Quantiles of recent observations, without storing them: one histogram per time slice, with
// buckets that grow with the value (the log-linear buckets of HdrHistogram, see also Masson, Rim,
// Lee: "DDSketch", VLDB 2019). A quantile is the sample of that rank within SLIDING_QUANTILES_ERROR
// of its value; below 128 it is exact. Any thread adds without a lock; the scraper's thread reads.
#ifndef NEREID_METRICS_SLIDING_QUANTILES_H
#define NEREID_METRICS_SLIDING_QUANTILES_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

// As in Triton's summaries: five slices of 12 seconds, so observations count for 48 to 60 seconds.
#define SLIDING_QUANTILES_SLICES   5
#define SLIDING_QUANTILES_SLICE_NS UINT64_C(12000000000)
#define SLIDING_QUANTILES_ERROR    (1.0 / 128) // relative to the value

#define QUANTILE_BLOCK_BUCKETS 64
#define QUANTILE_BLOCKS        35 // for values below 2^40; larger ones count in the last bucket

typedef struct quantile_block { // the buckets of values from 2^n to 2^(n+1)
  _Atomic uint32_t counts[QUANTILE_BLOCK_BUCKETS];
} quantile_block;

typedef struct quantile_slice {
  _Atomic uint64_t epoch;                            // the number of its time slice
  _Atomic(quantile_block *) blocks[QUANTILE_BLOCKS]; // each made when a value needs it
} quantile_slice;

typedef struct sliding_quantiles { // all zero at first
  quantile_slice slices[SLIDING_QUANTILES_SLICES];
} sliding_quantiles;

void sliding_quantiles_fini(sliding_quantiles *s);

// Adds an observation. It is lost when the slice is being cleared at this moment.
void sliding_quantiles_add(sliding_quantiles *s, uint64_t now_ns, uint64_t value);

// The sum of several estimators, for reading.
typedef struct quantile_counts {
  uint64_t total;
  uint64_t counts[QUANTILE_BLOCKS * QUANTILE_BLOCK_BUCKETS];
} quantile_counts;

void sliding_quantiles_collect(const sliding_quantiles *s, uint64_t now_ns, quantile_counts *sum);

// The value of that rank: the smallest for 0 or less, the largest for 1 or more. NaN without
// observations.
double quantile_counts_find(const quantile_counts *sum, double quantile);

#endif
