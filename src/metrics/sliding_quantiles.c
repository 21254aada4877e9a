// SPDX-License-Identifier: Apache-2.0
// A ring of histograms, one per time slice; the first observation in a new slice clears the oldest.
// Any thread that ends requests observes; a scrape reads.
#include "metrics/sliding_quantiles.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#define BLOCK_BITS     6 // of QUANTILE_BLOCK_BUCKETS
#define LARGEST        ((UINT64_C(1) << 40) - 1)
#define EPOCH_CLEARING UINT64_MAX // 0: never used

static_assert(1 << BLOCK_BITS == QUANTILE_BLOCK_BUCKETS, "the bits of a bucket's number");
static_assert(QUANTILE_BLOCKS == 40 - BLOCK_BITS + 1, "a block for each power of two");

void sliding_quantiles_fini(sliding_quantiles *s)
{
  for (size_t i = 0; i < SLIDING_QUANTILES_SLICES; i++)
    for (size_t b = 0; b < QUANTILE_BLOCKS; b++)
      free(atomic_load_explicit(&s->slices[i].blocks[b], memory_order_relaxed));
}

// In the first two blocks a bucket has one value; in each further block twice as many as in the
// block before.
static size_t bucket_of(uint64_t value)
{
  if (value > LARGEST)
    value = LARGEST;
  if (value < QUANTILE_BLOCK_BUCKETS)
    return (size_t)value;
  unsigned power = 63 - (unsigned)__builtin_clzll(value);
  unsigned shift = power - BLOCK_BITS;
  return (size_t)(shift + 1) * QUANTILE_BLOCK_BUCKETS +
         (size_t)((value >> shift) - QUANTILE_BLOCK_BUCKETS);
}

// The middle of a bucket's values.
static double value_of(size_t bucket)
{
  if (bucket < QUANTILE_BLOCK_BUCKETS)
    return (double)bucket;
  unsigned shift = (unsigned)(bucket / QUANTILE_BLOCK_BUCKETS) - 1;
  uint64_t first = (QUANTILE_BLOCK_BUCKETS + bucket % QUANTILE_BLOCK_BUCKETS) << shift;
  return (double)first + (double)((UINT64_C(1) << shift) - 1) / 2;
}

static uint64_t epoch_at(uint64_t now_ns)
{
  return now_ns / SLIDING_QUANTILES_SLICE_NS + 1;
}

static void clear(quantile_slice *slice)
{
  for (size_t b = 0; b < QUANTILE_BLOCKS; b++) {
    quantile_block *block = atomic_load_explicit(&slice->blocks[b], memory_order_acquire);
    for (size_t i = 0; block != NULL && i < QUANTILE_BLOCK_BUCKETS; i++)
      atomic_store_explicit(&block->counts[i], 0, memory_order_relaxed);
  }
}

// False: another thread is clearing the slice.
static bool enter(quantile_slice *slice, uint64_t epoch)
{
  uint64_t there = atomic_load_explicit(&slice->epoch, memory_order_acquire);
  if (there == epoch)
    return true;
  if (there == EPOCH_CLEARING || there > epoch ||
      !atomic_compare_exchange_strong_explicit(&slice->epoch, &there, EPOCH_CLEARING,
                                               memory_order_acquire, memory_order_relaxed))
    return false;
  clear(slice);
  atomic_store_explicit(&slice->epoch, epoch, memory_order_release);
  return true;
}

// NULL when memory is short: the observation is lost.
static quantile_block *get_block(_Atomic(quantile_block *) *slot)
{
  quantile_block *block = atomic_load_explicit(slot, memory_order_acquire);
  if (block != NULL)
    return block;
  quantile_block *made = calloc(1, sizeof(*made));
  if (made == NULL)
    return NULL;
  if (atomic_compare_exchange_strong_explicit(slot, &block, made, memory_order_acq_rel,
                                              memory_order_acquire))
    return made;
  free(made); // another thread was first
  return block;
}

void sliding_quantiles_add(sliding_quantiles *s, uint64_t now_ns, uint64_t value)
{
  uint64_t epoch = epoch_at(now_ns);
  quantile_slice *slice = &s->slices[epoch % SLIDING_QUANTILES_SLICES];
  if (!enter(slice, epoch))
    return;
  size_t bucket = bucket_of(value);
  quantile_block *block = get_block(&slice->blocks[bucket / QUANTILE_BLOCK_BUCKETS]);
  if (block != NULL)
    atomic_fetch_add_explicit(&block->counts[bucket % QUANTILE_BLOCK_BUCKETS], 1,
                              memory_order_relaxed);
}

static void collect_slice(const quantile_slice *slice, quantile_counts *sum)
{
  for (size_t b = 0; b < QUANTILE_BLOCKS; b++) {
    const quantile_block *block = atomic_load_explicit(&slice->blocks[b], memory_order_acquire);
    for (size_t i = 0; block != NULL && i < QUANTILE_BLOCK_BUCKETS; i++) {
      uint64_t count = atomic_load_explicit(&block->counts[i], memory_order_relaxed);
      sum->counts[b * QUANTILE_BLOCK_BUCKETS + i] += count;
      sum->total += count;
    }
  }
}

void sliding_quantiles_collect(const sliding_quantiles *s, uint64_t now_ns, quantile_counts *sum)
{
  uint64_t now = epoch_at(now_ns);
  for (size_t i = 0; i < SLIDING_QUANTILES_SLICES; i++) {
    uint64_t epoch = atomic_load_explicit(&s->slices[i].epoch, memory_order_acquire);
    if (epoch != 0 && epoch <= now && now - epoch < SLIDING_QUANTILES_SLICES)
      collect_slice(&s->slices[i], sum);
  }
}

double quantile_counts_find(const quantile_counts *sum, double quantile)
{
  if (sum->total == 0)
    return NAN;
  double wanted = ceil(quantile * (double)sum->total);
  uint64_t below = 0;
  size_t last = 0;
  for (size_t i = 0; i < QUANTILE_BLOCKS * QUANTILE_BLOCK_BUCKETS; i++) {
    if (sum->counts[i] == 0)
      continue;
    last = i;
    below += sum->counts[i];
    if ((double)below >= wanted)
      break;
  }
  return value_of(last);
}
