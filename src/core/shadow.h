// SPDX-License-Identifier: Apache-2.0
// Copies of requests for another version of their model, so that its operator sees how it does;
// their answers are counted and dropped. A shadow never delays or fails the request that it copies:
// their number and memory are limited. Made by the thread that submits that request, ended by the
// threads that answer the shadow.
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
#define SHADOW_MAX_INPUT_BYTES (16u << 20) // of one request: a larger copy would take long

typedef enum shadow_outcome {
  SHADOW_SUCCEEDED,
  SHADOW_FAILED,
  SHADOW_CANCELLED, // its model was unloaded or reloaded, or the server stopped
  SHADOW_REFUSED,   // by the version: a full queue, or inputs that it does not have
  SHADOW_BUSY,      // dropped: too many in flight, or too much memory
  SHADOW_TOO_LARGE, // dropped
  SHADOW_ELSEWHERE, // dropped: an input is in memory of a GPU
  SHADOW_NOT_READY, // dropped: the version is not READY
  SHADOW_NO_MEMORY, // dropped
  SHADOW_OUTCOMES,
} shadow_outcome;

extern const char *const shadow_outcome_names[SHADOW_OUTCOMES]; // in metrics
// The outcomes of the shadows of a version.
typedef struct shadow_counts {
  struct shadow_counts *next;
  int64_t version;
  _Atomic uint64_t of[SHADOW_OUTCOMES];
  _Atomic uint64_t ns; // of successful ones, from submission to end
} shadow_counts;

typedef struct shadows { // of a model
  pthread_mutex_t lock;  // guards what follows; not the numbers in a shadow_counts
  list sent;             // shadows that the core has
  size_t in_flight;
  size_t bytes;
  uint64_t cancels; // calls of shadows_cancel
} shadows;

typedef struct shadow shadow;

void shadows_init(shadows *all);
void shadows_fini(shadows *all); // none may be in flight

// Copies `r`, which is about to be submitted, for the version `to`. NULL: dropped, and counted.
shadow *shadow_new(shadows *all, shadow_counts *counts, const request *r, model *to_owned);
// One of the two must follow: send once `r` was submitted, drop if it was not.
void shadow_send(shadow *s_owned);
void shadow_drop(shadow *s_owned);

static inline void shadow_count(shadow_counts *counts, shadow_outcome outcome)
{
  atomic_fetch_add_explicit(&counts->of[outcome], 1, memory_order_relaxed);
}

// Cancels the shadows in flight.
void shadows_cancel(shadows *all);

#endif
