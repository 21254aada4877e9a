// SPDX-License-Identifier: Apache-2.0
// The end of a worker: how often it came, and why. Any thread.
#ifndef NEREID_PYTHON_WORKER_END_H
#define NEREID_PYTHON_WORKER_END_H

#include "process/worker.h"

// With the lock held. Records that a worker ended at `now` (clock_monotonic_ns), sets when the next
// starts, and returns the pause in seconds: none, 1, 2, 4 …
unsigned worker_count_death_locked(worker *self, uint64_t now);

// Kills the current worker's process, if there is one; the lock is held.
void worker_kill_locked(worker *self);

// How the worker behind `link` ended; NULL: the last worker.
TRITONSERVER_Error *worker_gone_locked(const worker *self, const worker_link *link);

// Why the worker behind `link` (NULL: the last one) is gone; a worker that still runs is killed.
// `waits`: waits a moment until its end is seen. Otherwise returns NULL if the end is not seen yet.
TRITONSERVER_Error *worker_why_gone(worker *self, const worker_link *link, bool waits);

#endif
