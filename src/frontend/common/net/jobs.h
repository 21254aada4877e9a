// Threads for requests that may block, such as loading a model, so that no loop thread ever waits.
// Threads are started when needed, up to a number, and then stay.
#ifndef NEREID_FRONTEND_PROTOCOL_JOBS_H
#define NEREID_FRONTEND_PROTOCOL_JOBS_H

#include "base/error.h"
#include "base/parallel.h"

#include <stddef.h>

typedef struct jobs jobs;

// Work on so many bytes of a request is done by a pool that has a thread for each processor, less
// by the loop itself, whose other clients wait meanwhile.
#define JOBS_LOOP_BYTES ((size_t)256 << 10)

// Something to run, inside of what it is about. `next` belongs to the queue meanwhile.
typedef struct job {
  struct job *next;
  void (*run)(struct job *j); // the job may be gone or queued again when it returns
} job;

// Requests that hold most are finished first: what they hold is free then.
typedef enum job_order {
  JOB_FINISHES, // the last step of a request
  JOB_BEGINS,
  JOB_ORDERS,
} job_order;

// `thread_name` is static.
error *jobs_new(const char *thread_name, size_t max_threads, jobs **result);

// Waits for what runs; nothing may be queued any more.
void jobs_free(jobs *j);

// Has one of the threads run a job, in order of submission among those of its `order`. Any thread.
// Errors: UNAVAILABLE when not one thread can be started.
error *jobs_submit(jobs *j, job_order order, job *added);

// Does the parts 0 to count - 1 on this thread and on those of the pool that have no request to
// run; returns when all are done. It is the `run` of a parallel. Any thread.
void jobs_run_parts(void *jobs_pointer, size_t count, parallel_part *part, void *context);

#endif
