// SPDX-License-Identifier: Apache-2.0
// What is done to each request of a batch on its way to the backend, on the thread that executes
// it. Who fails is answered and leaves the batch.
#ifndef NEREID_CORE_BATCH_STEP_H
#define NEREID_CORE_BATCH_STEP_H

#include "core/instance.h"

typedef error *batch_step(request *r, void *context);

// Of i->batch from `first` on; gives how many are left.
uint32_t batch_do(instance *i, size_t first, uint32_t count, batch_step *step, void *context);

#endif
