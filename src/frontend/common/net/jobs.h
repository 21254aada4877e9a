// SPDX-License-Identifier: Apache-2.0
// The threads of the process for what would hold a loop's other clients up: requests that may
// block, such as loads, and long computations. Each kind of job has a number of threads that it may
// take, so that none waits behind another kind. Threads are started when needed, and then stay.
#ifndef NEREID_FRONTEND_COMMON_NET_JOBS_H
#define NEREID_FRONTEND_COMMON_NET_JOBS_H

#include "base/error.h"
#include "base/parallel.h"

#include <stddef.h>

typedef struct jobs jobs;

// Work on so many bytes of a request is a job, less is done by the loop itself.
#define JOBS_LOOP_BYTES ((size_t)256 << 10)

#define JOBS_MAX_BLOCKING     16
#define JOBS_MAX_PROBES       4
#define JOBS_MAX_DRIVER_CALLS 4

typedef enum job_kind {
  JOB_FINISHES, // a computation that is the last step of a request: before other ones, since
                // requests that hold most are finished first, and what they hold is free then
  JOB_COMPUTES, // another one; together they take one thread for each processor
  JOB_PROBES,   // a short question, such as readiness (JOBS_MAX_PROBES threads)
  JOB_BLOCKS,   // what may take long without computing, such as a load (JOBS_MAX_BLOCKING)
  JOB_DRIVER,   // what asks a GPU's driver, which may never come back (JOBS_MAX_DRIVER_CALLS)
  JOB_KINDS,
} job_kind;

// Something to run, inside of what it is about. `next` belongs to the queue meanwhile.
typedef struct job {
  struct job *next;
  void (*run)(struct job *j); // the job may be gone or queued again when it returns
} job;

error *jobs_new(jobs **result);

// Waits for what runs; nothing may be queued any more. NULL is allowed.
void jobs_free(jobs *j);

// Has one of the threads run a job, in order of submission among those of its kind. Any thread.
// Errors: UNAVAILABLE when not one thread can be started.
error *jobs_submit(jobs *j, job_kind kind, job *added);

// Does the parts 0 to count - 1 on this thread and on those for computations that have no request
// to run; returns when all are done. It is the `run` of a parallel. Any thread.
void jobs_run_parts(void *jobs_pointer, size_t count, parallel_part *part, void *context);

#endif
