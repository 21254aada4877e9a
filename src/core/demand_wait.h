// SPDX-License-Identifier: Apache-2.0
// A wait for a model that is loaded on demand (core/demand.h): NEREID_ModelWait of the north seam.
#ifndef NEREID_CORE_DEMAND_WAIT_H
#define NEREID_CORE_DEMAND_WAIT_H

#include "base/error.h"
#include "core/model.h"

typedef struct demand demand;
typedef struct NEREID_ModelWait model_wait;
typedef void model_wait_ended(model_wait *w, void *context);

// Any thread, while `w` is alive. Does nothing when the wait is over.
void model_wait_cancel(model_wait *w);

// --- When the wait is over

// Moves the error out: NOT_FOUND for an unknown name or version, UNAVAILABLE for a failed load or a
// deadline that passed, CANCELLED.
error *model_wait_take_error(model_wait *w);
// The model, which is not evicted before model_wait_free; NULL after an error.
model *model_wait_model(const model_wait *w);
int64_t model_wait_version(const model_wait *w); // as asked for
void model_wait_free(model_wait *w);             // NULL is allowed

#endif
