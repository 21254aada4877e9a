// Threads ("http-job") for requests that may block, such as loading a model, so that no loop thread
// ever waits. Threads are started when needed, up to a number, and then stay.
#ifndef NEREID_FRONTEND_HTTP_JOBS_H
#define NEREID_FRONTEND_HTTP_JOBS_H

#include "base/error.h"

#include <stddef.h>

typedef struct jobs jobs;
typedef struct exchange exchange;

// Requests that hold most are finished first: what they hold is free then.
typedef enum job_order {
  JOB_FINISHES, // the last step of a request
  JOB_BEGINS,
  JOB_ORDERS,
} job_order;

error *jobs_new(size_t max_threads, jobs **result);

// Waits for what runs; nothing may be queued any more.
void jobs_free(jobs *j);

// Runs x->job on one of the threads, in order of submission among those of its `order`. x->next_job
// is used meanwhile. Any thread. Errors: UNAVAILABLE when not one thread can be started.
error *jobs_submit(jobs *j, job_order order, exchange *x);

#endif
