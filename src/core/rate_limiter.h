// SPDX-License-Identifier: Apache-2.0
// The rate limiter of a server (--rate-limit=execution_count): instances ask it for the resources
// that their executions take, and give them back. Called by instances' threads, by threads that run
// an idle instance in its place, and by load threads. docs/internals/schedulers.md.
#ifndef NEREID_CORE_RATE_LIMITER_H
#define NEREID_CORE_RATE_LIMITER_H

#include "config/config.h"
#include "core/server_options.h"
#include "metrics/registry.h"
#include "schedule/rate_policy.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct rate_limiter rate_limiter;
typedef struct rate_permit rate_permit; // an instance's

// Adds to `supplies`, a list of the operator's words, that there is so much of a resource. What was
// said of it before counts where it is less, as in Triton.
error *rate_limiter_supply(setting_list *supplies, const char *name, uint64_t count, int device);

// NULL where the options have none.
error *rate_limiter_new(const server_options *options, rate_limiter **l);
void rate_limiter_free(rate_limiter *l); // may be NULL; all permits are free

// What an instance of the group needs on `device`. INVALID_ARG where it could never run.
error *rate_limiter_join(rate_limiter *l, const Inference__ModelInstanceGroup *group,
                         int32_t device, rate_permit **permit);
void rate_limiter_leave(rate_permit *permit); // not granted; may be NULL

// Granted at once, or not. Takes the limiter's lock only, and may be called with a scheduler's.
bool rate_limiter_try(rate_permit *permit);
// Asks; true: it need not wait. rate_limiter_wait is to follow in any case, and says whether it was
// granted: false, it was ended.
bool rate_limiter_ask(rate_permit *permit);
bool rate_limiter_wait(rate_permit *permit);
// Gives the resources back. `executed`: it counts as one of the instance's executions.
void rate_limiter_release(rate_permit *permit, bool executed);
// After an execution, where there is more work: the two at once, so that nobody who is behind in
// order comes between.
bool rate_limiter_release_and_ask(rate_permit *permit);
// From now on rate_limiter_wait does not wait: nothing is to be executed any more.
void rate_limiter_end(rate_permit *permit);

// Adds what there is of each resource and what is used. `l` may be NULL.
void rate_limiter_collect(rate_limiter *l, metrics_sheet *sheet);

#endif
