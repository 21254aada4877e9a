// SPDX-License-Identifier: Apache-2.0
// Other threads' work for a call: jobs of methods that may block, and work on long messages.
#include "base/container_of.h"
#include "frontend/grpc/call/call_parts.h"
#include "frontend/grpc/transport/loop.h"

#include <assert.h>

void call_awaited(call *c)
{
  atomic_store(&c->job.state, CALL_JOB_DONE);
  call_wake(c);
  call_unref(c);
}

static void run_queued(job *queued)
{
  call *c = container_of(queued, call, job.queued);
  c->job.run(c);
  call_awaited(c);
}

// From now on another thread has the call.
static void hand_over(call *c, void (*done)(call *c), void (*cancel)(call *c))
{
  assert(atomic_load(&c->job.state) == CALL_JOB_NONE);
  atomic_store(&c->job.state, CALL_JOB_RUNS);
  c->job.done = done;
  c->job.cancel = cancel;
  call_ref(c);
  loop_core_handed_over(&c->loop->core);
}

static error *submit(call *c, job_kind kind, void (*run)(call *c), void (*done)(call *c))
{
  hand_over(c, done, NULL);
  c->job.run = run;
  c->job.queued.run = run_queued;
  return jobs_submit(c->server->options.jobs, kind, &c->job.queued);
}

void call_take_back(call *c)
{
  assert(atomic_load(&c->job.state) != CALL_JOB_NONE);
  atomic_store(&c->job.state, CALL_JOB_NONE);
  loop_core_took_back(&c->loop->core);
}

bool call_run_job(call *c, job_kind kind, void (*run)(call *c), void (*done)(call *c))
{
  error *failure = submit(c, kind, run, done);
  if (failure == NULL)
    return true;
  call_take_back(c);
  call_unref(c);
  return !call_fail_if_error(c, failure);
}

void call_await(call *c, void (*done)(call *c), void (*cancel)(call *c))
{
  c->body.paused = true;
  hand_over(c, done, cancel);
}

void call_cancel_job(call *c)
{
  if (atomic_load(&c->job.state) == CALL_JOB_RUNS && c->job.cancel != NULL)
    c->job.cancel(c);
}

void call_run_work(call *c, job_kind kind, void (*work)(call *c), void (*done)(call *c))
{
  c->body.paused = true;
  error *failure = submit(c, kind, work, done);
  if (failure == NULL)
    return;
  error_free(failure); // no thread can be started, so this one does the work
  run_queued(&c->job.queued);
}
