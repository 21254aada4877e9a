// SPDX-License-Identifier: Apache-2.0
// Threads of the process for work that would delay a loop's other clients: requests that may block,
// such as loads, and long computations. Each kind of job may use a fixed number of threads, so no
// kind waits behind another. Threads start when they are needed, and stay.
#ifndef NEREID_FRONTEND_COMMON_NET_JOBS_H
#define NEREID_FRONTEND_COMMON_NET_JOBS_H

#include "base/error.h"
#include "base/list.h"
#include "base/parallel.h"

#include <stddef.h>

typedef struct jobs jobs;

// Work on more bytes of a request than this is a job; the loop itself does less.
#define JOBS_LOOP_BYTES ((size_t)256 << 10)

#define JOBS_MAX_BLOCKING     16
#define JOBS_MAX_PROBES       4
#define JOBS_MAX_DRIVER_CALLS 4

typedef enum job_kind {
  JOB_FINISHES, // the last computation of a request; runs before others, because it frees what the
                // request holds
  JOB_COMPUTES, // any other computation; both kinds together use one thread for each processor
  JOB_PROBES,   // a short question, such as readiness (JOBS_MAX_PROBES threads)
  JOB_BLOCKS,   // may take long without computing, such as a load (JOBS_MAX_BLOCKING)
  JOB_DRIVER,   // asks a GPU's driver, which may never return (JOBS_MAX_DRIVER_CALLS)
  JOB_KINDS,
} job_kind;

// A piece of work, embedded in the object that it is about. It begins zeroed, and is in the queue
// until it runs.
typedef struct job {
  list_node node;
  void (*run)(struct job *j); // may free the job or queue it again
} job;

error *jobs_new(jobs **result);

// Waits for running jobs; the caller queues no more. NULL is allowed.
void jobs_free(jobs *j);

// Queues a job; jobs of one kind run in the order of submission. Any thread. Errors: UNAVAILABLE
// when not even one thread can be started.
error *jobs_submit(jobs *j, job_kind kind, job *added);

// Does the parts 0 to count - 1 on this thread and on idle computation threads; returns when all
// are done. It is the `run` of a parallel. Any thread.
void jobs_run_parts(void *jobs_pointer, size_t count, parallel_part *part, void *context);

#endif
