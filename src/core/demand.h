// SPDX-License-Identifier: Apache-2.0
// Loading on demand: requests for a model that is not loaded wait for its load, which they share;
// unused models are evicted when memory is wanted. docs/internals/demand.md is the map.
#ifndef NEREID_CORE_DEMAND_H
#define NEREID_CORE_DEMAND_H

#include "core/demand_wait.h"
#include "core/server.h"

// Starts the keeper. `s` is borrowed until demand_free. 0 bytes: there is no budget.
error *demand_new(server *s, uint64_t budget_bytes, demand **result);
// Ends the waits for loads that have not begun ("Server exiting") and refuses new ones.
void demand_stop(demand *d); // NULL is allowed, as for the next
// Waits for the loads under way. Nobody may ask any more.
void demand_free(demand *d);

// A model was loaded by other means: the keeper checks the budget. Any thread; NULL is allowed.
void demand_settle(demand *d);

// Begins the load of a model, or joins it. *waits false: the wait is over already, and `ended` is
// not called. Else `ended` is called once, on any thread, with no lock held and maybe before this
// returns: at the end of the load, at the monotonic moment `deadline_ns` (CLOCK_NEVER: never), or
// by model_wait_cancel. *result is for model_wait_free. Errors that are known at once are returned,
// in Triton's words for an unknown name or version; *result is NULL then. Does not block.
error *demand_await(server *s, const char *name, int64_t version, uint64_t deadline_ns,
                    model_wait_ended *ended, void *context, model_wait **result, bool *waits);

// As server_find_model, but loads a model that is not. Blocks where the server loads on demand.
error *demand_find_model(server *s, const char *name, int64_t version, model **m);

// For metrics.
typedef struct demand_counts {
  uint64_t loads, failures, evictions;
  uint64_t waiting; // requests
  uint64_t budget_bytes, used_bytes;
} demand_counts;
void demand_count(demand *d, demand_counts *counts);

#endif
