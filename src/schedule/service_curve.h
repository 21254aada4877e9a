// SPDX-License-Identifier: Apache-2.0
// The measured duration of executions by their number of rows: a mean for each size seen, one
// deviation for all, interpolated between sizes and extrapolated beyond. A plain value; the
// scheduler that owns it holds the lock.
#ifndef NEREID_SCHEDULE_SERVICE_CURVE_H
#define NEREID_SCHEDULE_SERVICE_CURVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Sizes up to 16 rows have one place each; larger sizes have eight places for each doubling.
#define SERVICE_CURVE_PLACES 232

typedef struct service_point {
  double mean_ns;      // a moving average: the newest execution counts for an eighth
  uint32_t executions; // up to a small number
} service_point;

typedef struct service_curve {
  service_point points[SERVICE_CURVE_PLACES];
  double spread; // mean distance of executions from the mean of their size, relative to it
  size_t smallest, largest; // places with measurements; smallest > largest: none
} service_curve;

void service_curve_init(service_curve *c);
// Adds the duration of an execution of `rows` (at least 1).
void service_curve_add(service_curve *c, uint64_t rows, uint64_t duration_ns);
static inline bool service_curve_is_empty(const service_curve *c)
{
  return c->smallest > c->largest;
}
// The largest measured number of rows; 0: none.
uint64_t service_curve_largest(const service_curve *c);

// The mean duration of an execution of `rows`, and the one that 99 of 100 do not exceed, ns. Linear
// between two measured sizes; below the smallest as that one. Beyond the largest the mean continues
// the line from the smallest to the largest, and the second grows at least in proportion to the
// rows, the most that batching can cost. 0 without measurements.
double service_curve_mean(const service_curve *c, uint64_t rows);
double service_curve_high(const service_curve *c, uint64_t rows);

// Iterates over the largest size of each place, up to `max`. `rows` 0 begins; 0 ends.
uint64_t service_curve_next_size(uint64_t rows, uint64_t max);

#endif
