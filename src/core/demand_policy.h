// SPDX-License-Identifier: Apache-2.0
// The decisions of loading on demand: whether a model may be loaded now, which models are evicted
// for it, and when a failed load is tried again. Pure functions of numbers and moments, for
// demand_load.c and demand_room.c.
#ifndef NEREID_CORE_DEMAND_POLICY_H
#define NEREID_CORE_DEMAND_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A model that takes memory.
typedef struct demand_model {
  uint64_t bytes;
  uint64_t used_ns; // when the last request came
  bool in_use;      // by a request, a load or an unload
  bool pinned;      // never evicted
  bool leaving;     // being unloaded already
  bool goes;        // set by demand_decide: evict it now
} demand_model;

// The budget, and the load that wants room in it.
typedef struct demand_need {
  uint64_t budget;        // bytes; 0: there is none
  uint64_t loading_bytes; // of the loads under way
  bool is_load;           // a model is to be loaded, which takes:
  uint64_t bytes;
  uint64_t waited_ns; // how long the load has waited for room
} demand_need;

typedef enum demand_verdict {
  DEMAND_FITS,
  DEMAND_WAITS,   // until the marked models are gone, or a model in use may go
  DEMAND_EXCEEDS, // the budget is exceeded, and waiting does not help or has lasted long enough
} demand_verdict;

// How long a load waits for models in use: a request that uses one may itself wait for this load.
#define DEMAND_PATIENCE_NS UINT64_C(2000000000)

// Marks the models to evict, the longest unused first and no more than needed. When no model is to
// be loaded, the model used last stays, or the ensemble used last with its steps' models.
demand_verdict demand_decide(demand_model *models, size_t count, const demand_need *need);

// A model that failed to load.
typedef struct demand_failures {
  unsigned count; // in a row
  uint64_t failed_ns;
  uint64_t looked_ns; // when its files were looked at last
} demand_failures;

typedef enum demand_retry {
  DEMAND_REFUSES,       // its files are not looked at
  DEMAND_LOADS_CHANGED, // tried again if its files have changed
  DEMAND_LOADS,
} demand_retry;

// A failed model's files are looked at once a second. Unchanged, it is tried again after 1, 2,
// 4 … 60 s.
demand_retry demand_decide_retry(const demand_failures *failures, uint64_t now_ns);

#endif
