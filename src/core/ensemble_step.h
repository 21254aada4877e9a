// SPDX-License-Identifier: Apache-2.0
// The steps of an ensemble's run: their requests, their answers, and what follows them. Any thread.
#ifndef NEREID_CORE_ENSEMBLE_STEP_H
#define NEREID_CORE_ENSEMBLE_STEP_H

#include "core/ensemble_parts.h"

// Steps that are ready, or over, in their order.
typedef struct ensemble_steps {
  ensemble_step *first, *last;
} ensemble_steps;

// Puts an input of the request into the first wave; NULL: it was left out. Adds the steps that are
// ready with it.
void ensemble_put_input(ensemble_run *run, uint32_t tensor, const request_input *input,
                        ensemble_steps *ready);

// Begins what is ready in the wave and leaves it; goes on with what is over at once. The last one
// may run on this thread if it `has_time`.
void ensemble_proceed(ensemble_wave *w, ensemble_steps *ready, bool has_time);

#endif
