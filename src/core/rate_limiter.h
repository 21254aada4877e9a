// SPDX-License-Identifier: Apache-2.0
// The rate limiter of a server (--rate-limit=execution_count): instances ask it for the resources
// of their executions and give them back. Called by instances' threads, by threads that run an idle
// instance in its place, and by load threads. docs/internals/schedulers.md.
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

// Notes in `supplies` that `device` (or RATE_…) has `count` of the resource. If a resource is noted
// twice, the smaller count is kept, as in Triton.
error *rate_limiter_supply(setting_list *supplies, const char *name, uint64_t count, int device);

// *l is NULL with the rate limiter off. The options must outlive the limiter.
error *rate_limiter_new(const server_options *options, rate_limiter **l);
void rate_limiter_free(rate_limiter *l); // may be NULL; all permits have left

// The permit of a new instance of the group on `device`, until rate_limiter_leave. `group` must
// live as long. INVALID_ARG if the instance could never run.
error *rate_limiter_join(rate_limiter *l, const Inference__ModelInstanceGroup *group,
                         int32_t device, rate_permit **permit);
void rate_limiter_leave(rate_permit *permit); // must not be granted; may be NULL

// Grants at once, or not. Takes only the limiter's lock; a scheduler's lock may be held.
bool rate_limiter_try(rate_permit *permit);
// Asks. rate_limiter_wait must follow, and returns whether the permit was granted: false means that
// rate_limiter_end was called. True: rate_limiter_wait will not sleep.
bool rate_limiter_ask(rate_permit *permit);
bool rate_limiter_wait(rate_permit *permit);
// Gives the resources back. `executed`: counts as an execution of the instance.
void rate_limiter_release(rate_permit *permit, bool executed);
// Releases after an execution and asks again under the same lock, so that no instance with a later
// turn is granted between. Returns as rate_limiter_ask.
bool rate_limiter_release_and_ask(rate_permit *permit);
// From now on rate_limiter_wait does not sleep, and later asks are not granted.
void rate_limiter_end(rate_permit *permit);

// Adds the total and the used amount of each resource. `l` may be NULL.
void rate_limiter_collect(rate_limiter *l, metrics_sheet *sheet);

#endif
