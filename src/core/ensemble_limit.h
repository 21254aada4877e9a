// SPDX-License-Identifier: Apache-2.0
// max_inflight_requests: how many requests of a step, of all runs of an ensemble, are under way at
// once. A step that has to wait is put aside, but where it comes of an answer of a decoupled model:
// there the thread waits that brings the answer, so that the model does not run ahead. As in
// Triton, after five minutes the step begins all the same.
#ifndef NEREID_CORE_ENSEMBLE_LIMIT_H
#define NEREID_CORE_ENSEMBLE_LIMIT_H

#include "core/ensemble_parts.h"

// UNAVAILABLE. Nothing where `max` is 0.
error *ensemble_limits_init(ensemble *e, uint32_t max);
void ensemble_limits_fini(ensemble *e); // nobody waits

// True: it is under way, or its run has failed. False: it was put aside, and its `over` is run when
// it is. `blocks`: this thread may wait.
bool ensemble_limit_enter(ensemble_step *s, bool blocks);
// It is not under way any more.
void ensemble_limit_leave(ensemble_step *s);

// The run has failed: its steps that wait are let through.
void ensemble_limit_let_through(ensemble_run *run);

#endif
