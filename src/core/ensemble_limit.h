// SPDX-License-Identifier: Apache-2.0
// max_inflight_requests: how many requests of a step, over all runs of an ensemble, may be under
// way at once. A step beyond that is put aside. If it follows from an answer of a decoupled model,
// the thread that brings the answer waits instead, so that the model does not run ahead. As in
// Triton, the step begins after five minutes in any case.
#ifndef NEREID_CORE_ENSEMBLE_LIMIT_H
#define NEREID_CORE_ENSEMBLE_LIMIT_H

#include "core/ensemble_parts.h"

// UNAVAILABLE. `max` 0: no limits are made.
error *ensemble_limits_init(ensemble *e, uint32_t max);
void ensemble_limits_fini(ensemble *e); // nobody waits

// True: the step counts as under way, or its run has failed. False: the step was put aside, and its
// `over` runs once it may begin. `blocks`: this thread may wait.
bool ensemble_limit_enter(ensemble_step *s, bool blocks);
// The step's request is no longer under way.
void ensemble_limit_leave(ensemble_step *s);

// The run has failed: lets its waiting steps through.
void ensemble_limit_let_through(ensemble_run *run);

#endif
