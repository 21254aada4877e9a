// SPDX-License-Identifier: Apache-2.0
// Loading on demand: who asks for a model that is not loaded waits for its load, one for all that
// ask; models that nobody uses go when memory is wanted. docs/internals/demand.md is the map.
#ifndef NEREID_CORE_DEMAND_H
#define NEREID_CORE_DEMAND_H

#include "core/demand_wait.h"
#include "core/server.h"

// Starts the keeper. `server` is borrowed until demand_free. 0 bytes: there is no budget.
error *demand_new(server *s, uint64_t budget_bytes, demand **result);
// Whoever waits for a load that has not begun is told that the server exits; nobody else may wait.
void demand_stop(demand *d); // NULL is allowed, as for the next
// Waits for the loads under way. Nobody may ask any more.
void demand_free(demand *d);

// Something was loaded otherwise: the budget is looked after. Any thread; NULL is allowed.
void demand_settle(demand *d);

// Has a model loaded that is not. *result is the caller's, for model_wait_free. *waits false: it is
// over already, and `ended` is not called; else `ended` is called once, on any thread, with no lock
// held and maybe before this returns: at the end of the load, when the monotonic moment
// `deadline_ns` comes (CLOCK_NEVER: never), or by model_wait_cancel. Errors that are known at once
// are returned, in Triton's words where a name or version is not known; *result is NULL then. Does
// not block.
error *demand_await(server *s, const char *name, int64_t version, uint64_t deadline_ns,
                    model_wait_ended *ended, void *context, model_wait **result, bool *waits);

// server_find_model, but loads a model that is not. Blocks where the server loads on demand.
error *demand_find_model(server *s, const char *name, int64_t version, model **m);

// For metrics.
typedef struct demand_counts {
  uint64_t loads, failures, evictions;
  uint64_t waiting; // requests
  uint64_t budget_bytes, used_bytes;
} demand_counts;
void demand_count(demand *d, demand_counts *counts);

#endif
