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

// Adds to `supplies`, which the operator gave, that there is `count` of a resource. Of two values
// the smaller counts, as in Triton.
error *rate_limiter_supply(setting_list *supplies, const char *name, uint64_t count, int device);

// *l is NULL where the options do not ask for a limiter.
error *rate_limiter_new(const server_options *options, rate_limiter **l);
void rate_limiter_free(rate_limiter *l); // may be NULL; all permits are free

// The permit for an instance of the group on `device`. INVALID_ARG where it could never run.
error *rate_limiter_join(rate_limiter *l, const Inference__ModelInstanceGroup *group,
                         int32_t device, rate_permit **permit);
void rate_limiter_leave(rate_permit *permit); // not granted; may be NULL

// Grants at once, or not. Takes only the limiter's lock; a scheduler's lock may be held.
bool rate_limiter_try(rate_permit *permit);
// Asks; true: granted at once. rate_limiter_wait must follow in any case; it returns whether the
// permit was granted, false after rate_limiter_end.
bool rate_limiter_ask(rate_permit *permit);
bool rate_limiter_wait(rate_permit *permit);
// Gives the resources back. `executed`: counts as an execution of the instance.
void rate_limiter_release(rate_permit *permit, bool executed);
// After an execution, where there is more work: releases and asks at once, so that no instance with
// a later turn comes between.
bool rate_limiter_release_and_ask(rate_permit *permit);
// rate_limiter_wait does not wait from now on: nothing will be executed any more.
void rate_limiter_end(rate_permit *permit);

// Adds the total and the used amount of each resource. `l` may be NULL.
void rate_limiter_collect(rate_limiter *l, metrics_sheet *sheet);

#endif
