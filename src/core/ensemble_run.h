// SPDX-License-Identifier: Apache-2.0
// The life of an ensemble's run: its memory, waves, failure and end. Any thread; steps are
// core/ensemble_step.h.
#ifndef NEREID_CORE_ENSEMBLE_RUN_H
#define NEREID_CORE_ENSEMBLE_RUN_H

#include "core/ensemble_parts.h"

// The run of a request that was prepared, with its first wave, open by one for the caller; it is
// part of the request's response factory. NULL: memory is short, and nothing has happened.
ensemble_run *ensemble_run_new(ensemble *e, model *m, request *r);

// One more wave, open by one for the caller. NULL: memory is short.
ensemble_wave *ensemble_wave_new(ensemble_run *run);

// The caller's part of the wave is over. It may be the last: then the wave answers, and with the
// last wave the run and its request are gone. Gives what is due after that, or NULL.
follow_up *ensemble_leave_wave(ensemble_wave *w);

// The first failure counts; the steps under way are cancelled. The caller keeps a wave open.
void ensemble_fail(ensemble_run *run, error *failure_owned);

// Cancels the run of a request that was submitted, which may be over.
void ensemble_cancel(request *r);

#endif
