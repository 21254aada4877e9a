// SPDX-License-Identifier: Apache-2.0
// Copies of requests that go to another version of their model, for its operator to see how it
// does: their answers are counted and dropped. Nothing of it holds up or fails the request that was
// copied: there is an end to how many there are, and to what they hold. Made by whoever submits
// that request, ended by whoever answers them.
#ifndef NEREID_CORE_SHADOW_H
#define NEREID_CORE_SHADOW_H

#include "base/list.h"
#include "core/model.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define SHADOWS_MAX_IN_FLIGHT  64          // of a model
#define SHADOWS_MAX_BYTES      (64u << 20) // of their inputs
#define SHADOW_MAX_INPUT_BYTES (16u << 20) // of one: a copy of more would be felt

typedef enum shadow_outcome {
  SHADOW_SUCCEEDED,
  SHADOW_FAILED,
  SHADOW_CANCELLED, // its model was unloaded, loaded anew, or the server stopped
  SHADOW_REFUSED,   // by the version: a full queue, inputs that it has not
  SHADOW_BUSY,      // dropped: there were as many as there may be
  SHADOW_TOO_LARGE, // dropped
  SHADOW_ELSEWHERE, // dropped: an input is not in memory that the processor reads
  SHADOW_NOT_READY, // dropped: the version is not
  SHADOW_NO_MEMORY, // dropped
  SHADOW_OUTCOMES,
} shadow_outcome;

extern const char *const shadow_outcome_names[SHADOW_OUTCOMES]; // as metrics show them

// What became of the shadows that went to a version.
typedef struct shadow_counts {
  struct shadow_counts *next;
  int64_t version;
  _Atomic uint64_t of[SHADOW_OUTCOMES];
  _Atomic uint64_t ns; // of those that succeeded, from submission to end
} shadow_counts;

typedef struct shadows { // of a model
  pthread_mutex_t lock;  // guards what follows; the counts in `counts` change without
  list sent;             // those that the core has
  size_t in_flight;
  size_t bytes;
  uint64_t cancels; // so far
} shadows;

typedef struct shadow shadow;

void shadows_init(shadows *all);
void shadows_fini(shadows *all); // none may be in flight

// Copies `r`, which is to be submitted, for `to`, whose reference is taken over. NULL: it is
// dropped, and counted.
shadow *shadow_new(shadows *all, shadow_counts *counts, const request *r, model *to_owned);
// One of the two, once `r` was submitted, or was not.
void shadow_send(shadow *s_owned);
void shadow_drop(shadow *s_owned);

static inline void shadow_count(shadow_counts *counts, shadow_outcome outcome)
{
  atomic_fetch_add_explicit(&counts->of[outcome], 1, memory_order_relaxed);
}

// Ends those in flight, soon.
void shadows_cancel(shadows *all);

#endif
