// SPDX-License-Identifier: Apache-2.0
// Places of sizes, averages, straight lines between them. Called by the latency policy, under its
// scheduler's lock.
#include "schedule/service_curve.h"

#include <assert.h>

#define EXACT_SIZES   16 // each has its own place
#define OCTAVE_PLACES 8
#define NEWEST        (1.0 / 8)
#define NEWEST_SPREAD (1.0 / 64)
// The 99th percentile of a normal distribution, the 95th of an exponential one.
#define SPREADS_HIGH 3

void service_curve_init(service_curve *c)
{
  *c = (service_curve){.smallest = 1, .largest = 0};
}

static size_t place_of(uint64_t rows)
{
  assert(rows > 0);
  if (rows <= EXACT_SIZES)
    return rows - 1;
  unsigned octave = 63u - (unsigned)__builtin_clzll(rows - 1); // 17 to 32 rows: 4
  size_t within = (size_t)((rows - 1) >> (octave - 3)) & (OCTAVE_PLACES - 1);
  size_t place = EXACT_SIZES + (octave - 4) * OCTAVE_PLACES + within;
  return place < SERVICE_CURVE_PLACES ? place : SERVICE_CURVE_PLACES - 1;
}

// The largest size of a place.
static uint64_t rows_of(size_t place)
{
  if (place < EXACT_SIZES)
    return place + 1;
  size_t octave = (place - EXACT_SIZES) / OCTAVE_PLACES,
         within = (place - EXACT_SIZES) % OCTAVE_PLACES;
  return (uint64_t)(OCTAVE_PLACES + within + 1) << (octave + 1);
}

void service_curve_add(service_curve *c, uint64_t rows, uint64_t duration_ns)
{
  size_t place = place_of(rows);
  service_point *p = &c->points[place];
  double took = (double)duration_ns;
  if (p->executions > 0 && p->mean_ns > 0) {
    double distance = took > p->mean_ns ? took - p->mean_ns : p->mean_ns - took;
    c->spread += (distance / p->mean_ns - c->spread) * NEWEST_SPREAD;
  }
  if (p->executions < 1 / NEWEST)
    p->executions++;
  p->mean_ns += (took - p->mean_ns) / p->executions; // an average until there are enough
  if (service_curve_is_empty(c))
    c->smallest = c->largest = place;
  c->smallest = place < c->smallest ? place : c->smallest;
  c->largest = place > c->largest ? place : c->largest;
}

uint64_t service_curve_largest(const service_curve *c)
{
  return service_curve_is_empty(c) ? 0 : rows_of(c->largest);
}

// Continues the line from the smallest to the largest size; with only one size in proportion to the
// rows.
static double beyond(const service_curve *c, uint64_t rows)
{
  double last = c->points[c->largest].mean_ns, first = c->points[c->smallest].mean_ns;
  double to = (double)rows_of(c->largest), from = (double)rows_of(c->smallest);
  double slope = last > first ? (last - first) / (to - from) : 0;
  if (c->smallest == c->largest)
    slope = last / to;
  return last + slope * ((double)rows - to);
}

double service_curve_mean(const service_curve *c, uint64_t rows)
{
  if (service_curve_is_empty(c))
    return 0;
  size_t place = place_of(rows), below = place, above = place;
  if (place <= c->smallest)
    return c->points[c->smallest].mean_ns;
  if (place > c->largest)
    return beyond(c, rows);
  while (c->points[below].executions == 0)
    below--;
  while (c->points[above].executions == 0)
    above++;
  double low = c->points[below].mean_ns, high = c->points[above].mean_ns;
  if (below == above)
    return low;
  double from = (double)rows_of(below), to = (double)rows_of(above);
  return low + (high - low) * ((double)rows_of(place) - from) / (to - from);
}

double service_curve_high(const service_curve *c, uint64_t rows)
{
  double mean = service_curve_mean(c, rows), largest = (double)service_curve_largest(c);
  double most = (double)rows > largest && largest > 0
                    ? c->points[c->largest].mean_ns * (double)rows / largest
                    : mean;
  return (most > mean ? most : mean) * (1 + SPREADS_HIGH * c->spread);
}

uint64_t service_curve_next_size(uint64_t rows, uint64_t max)
{
  if (rows >= max)
    return 0;
  uint64_t next = rows == 0 ? 1 : rows_of(place_of(rows) + 1);
  return next < max && next > rows ? next : max;
}
