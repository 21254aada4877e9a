// SPDX-License-Identifier: Apache-2.0
// Loading on demand, its decisions: whether a model may be loaded now, which ones go for it, and
// when one that failed is tried again. Pure functions of numbers and moments; demand.c and
// demand_room.c ask them.
#ifndef NEREID_CORE_DEMAND_POLICY_H
#define NEREID_CORE_DEMAND_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A model that takes memory.
typedef struct demand_model {
  uint64_t bytes;
  uint64_t used_ns; // when a request came last
  bool in_use;      // by a request, a load or an unload
  bool pinned;      // it never goes
  bool leaving;     // it is going already
  bool goes;        // demand_decide: it is to go now
} demand_model;

// What is wanted of the budget.
typedef struct demand_need {
  uint64_t budget;        // bytes; 0: there is none
  uint64_t loading_bytes; // of the loads under way
  bool is_load;           // of a model that is to be loaded, which takes:
  uint64_t bytes;
  uint64_t waited_ns; // how long it has waited for room
} demand_need;

typedef enum demand_verdict {
  DEMAND_FITS,
  DEMAND_WAITS,   // until those that are marked are gone, or one in use is free to go
  DEMAND_EXCEEDS, // the budget is exceeded, and waiting does not help or has lasted long enough
} demand_verdict;

// How long a load waits for room that requests take: a model's request may be waiting for it.
#define DEMAND_PATIENCE_NS UINT64_C(2000000000)

// Marks those that go, the longest unused first and no more than are needed. Where none is to be
// loaded what was used last stays: a model, or an ensemble with the models of its steps.
demand_verdict demand_decide(demand_model *models, size_t count, const demand_need *need);

// A model that failed to load.
typedef struct demand_failures {
  unsigned count; // in a row
  uint64_t failed_ns;
  uint64_t looked_ns; // when its files were looked at last
} demand_failures;

typedef enum demand_retry {
  DEMAND_REFUSES,       // nobody looks
  DEMAND_LOADS_CHANGED, // it is tried again if its files have changed
  DEMAND_LOADS,
} demand_retry;

// Files are looked at once a second; what has not changed is tried again after 1, 2, 4 … 60 s.
demand_retry demand_decide_retry(const demand_failures *failures, uint64_t now_ns);

#endif
