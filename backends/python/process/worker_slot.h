// SPDX-License-Identifier: Apache-2.0
// The slot of a worker, for threads that hold the worker's lock already; worker.h has the rest.
#ifndef NEREID_PYTHON_WORKER_SLOT_H
#define NEREID_PYTHON_WORKER_SLOT_H

#include "process/worker.h"

// Waits for the slot; the lock is held. False: `deadline_ns` came first.
bool worker_acquire_slot_locked(worker *self, uint64_t deadline_ns);
void worker_release_slot_locked(worker *self);

#endif
