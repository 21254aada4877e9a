// SPDX-License-Identifier: Apache-2.0
// How long executions take by the number of their rows, as measured: a mean and a deviation for
// each size that was seen, and what lies between and beyond. A plain value; the scheduler that owns
// it holds the lock.
#ifndef NEREID_SCHEDULE_SERVICE_CURVE_H
#define NEREID_SCHEDULE_SERVICE_CURVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Sizes up to 16 rows have a place each, larger ones eight for each doubling.
#define SERVICE_CURVE_PLACES 232

typedef struct service_point {
  double mean_ns;      // of executions of late: the newest counts for an eighth
  uint32_t executions; // up to a small number
} service_point;

typedef struct service_curve {
  service_point points[SERVICE_CURVE_PLACES];
  double spread; // mean distance of executions from the mean of their size, as a part of that
  size_t smallest, largest; // places that were seen; smallest > largest: none
} service_curve;

void service_curve_init(service_curve *c);
// An execution of `rows` (at least 1) took that long.
void service_curve_add(service_curve *c, uint64_t rows, uint64_t duration_ns);
static inline bool service_curve_is_empty(const service_curve *c)
{
  return c->smallest > c->largest;
}
// The most rows that were measured; 0: none.
uint64_t service_curve_largest(const service_curve *c);

// What an execution of `rows` takes on average, and what 99 of 100 take at most, ns. Between two
// sizes that were seen a straight line; beyond the largest one in proportion to the rows, which is
// the most that batching can cost; below the smallest what that one takes. 0 while nothing was
// seen.
double service_curve_mean(const service_curve *c, uint64_t rows);
double service_curve_high(const service_curve *c, uint64_t rows);

// Sizes worth looking at: the largest one of each place. `rows` 0 begins; 0 is the end. At most
// `max`.
uint64_t service_curve_next_size(uint64_t rows, uint64_t max);

#endif
