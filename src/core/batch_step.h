// SPDX-License-Identifier: Apache-2.0
// A step that each request of a batch takes before the backend gets it, on the thread that executes
// the batch. A request whose step fails is answered and leaves the batch.
#ifndef NEREID_CORE_BATCH_STEP_H
#define NEREID_CORE_BATCH_STEP_H

#include "core/instance.h"

typedef error *batch_step(request *r, void *context);

// Applies `step` to `count` requests of i->batch from `first` on. Returns how many are left.
uint32_t batch_do(instance *i, size_t first, uint32_t count, batch_step *step, void *context);

#endif
