// SPDX-License-Identifier: Apache-2.0
// The life of an ensemble's run: its memory, waves, failure and end. Any thread.
// core/ensemble_step.h has the steps.
#ifndef NEREID_CORE_ENSEMBLE_RUN_H
#define NEREID_CORE_ENSEMBLE_RUN_H

#include "core/ensemble_parts.h"

// Makes the run of a prepared request, as part of the request's response factory, with its first
// wave, open by one for the caller. NULL: memory is short, and nothing has happened.
ensemble_run *ensemble_run_new(ensemble *e, model *m, request *r);

// Makes one more wave, open by one for the caller. NULL: memory is short.
ensemble_wave *ensemble_wave_new(ensemble_run *run);

// Ends the caller's part of the wave. After the last part the wave answers; the last wave ends the
// run and its request. Returns what is due after that, or NULL.
follow_up *ensemble_leave_wave(ensemble_wave *w);

// Fails the run, unless it has failed already, and cancels the steps under way. The caller keeps a
// wave open.
void ensemble_fail(ensemble_run *run, error *failure_owned);

// Cancels the run of a submitted request; the run may be over.
void ensemble_cancel(request *r);

#endif
