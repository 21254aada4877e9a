// SPDX-License-Identifier: Apache-2.0
// The steps of an ensemble's run: their requests, their answers, and what follows them. Any thread.
#ifndef NEREID_CORE_ENSEMBLE_STEP_H
#define NEREID_CORE_ENSEMBLE_STEP_H

#include "core/ensemble_parts.h"

// Steps that are ready, or over, in order.
typedef struct ensemble_steps {
  ensemble_step *first, *last;
} ensemble_steps;

// Puts an input of the request (NULL: it was left out) into the first wave, and adds the steps that
// this makes ready.
void ensemble_put_input(ensemble_run *run, uint32_t tensor, const request_input *input,
                        ensemble_steps *ready);

// Begins the ready steps of the wave, leaves the wave, and continues with steps that are over at
// once. `has_time`: the last step may run on this thread.
void ensemble_proceed(ensemble_wave *w, ensemble_steps *ready, bool has_time);

#endif
