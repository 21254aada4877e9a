// SPDX-License-Identifier: Apache-2.0
// Checks a request, and queues it or runs it on the submitting thread in place of an idle instance.
#include "core/submit.h"

#include "base/clock.h"
#include "core/execute.h"
#include "core/model.h"
#include "core/model_cache.h"
#include "core/model_instances.h"
#include "core/model_queue.h"
#include "core/refuse.h"

// A slower model is executed by its instance's thread: the submitting thread has other clients
// (RUN_INLINE_NS), or only new connections to wait for (RUN_ALONE_NS).
#define RUN_INLINE_NS 50000
#define RUN_ALONE_NS  500000

// For submissions; timeouts and cancellations concern queued requests.
static refused_reason refused_of(refusal reason)
{
  switch (reason) {
  case REFUSAL_QUEUE_FULL:
    return REFUSED_QUEUE_FULL;
  case REFUSAL_LATENCY:
    return REFUSED_LATENCY;
  case REFUSAL_STOPPED:
    return REFUSED_STOPPING;
  case REFUSAL_BATCH:
  case REFUSAL_NO_SEQUENCE:
  case REFUSAL_NOT_STARTED:
    return REFUSED_INVALID;
  default:
    return REFUSED_RESOURCES;
  }
}

// A refused submission never became a request, so it is not counted as a failed one: as in Triton,
// failure counters and statistics leave it out.
static error *refuse_submission(request *r, error *e, refused_reason reason)
{
  request_set_state(r, REQUEST_INITIALIZED);
  statistics_count_refusal(&r->target->shared_statistics, reason);
  return e;
}

// The first queued request starts the instances' threads.
static bool enqueue(model *m, request *r, error **e, refused_reason *why)
{
  refusal reason;
  *why = REFUSED_RESOURCES;
  if (!model_is_started(m) && (*e = model_start(m)) != NULL)
    return false;
  model_ref(m); // another thread may finish the request and drop its reference
  bool added = model_queue_add(m, r, &reason);
  model_unref(m);
  if (added)
    return true;
  *e = reason == REFUSAL_LATENCY ? model_queue_latency_error(m, r) : refusal_error(r, reason);
  *why = refused_of(reason);
  return false;
}

bool submission_may_run_here(const model *m, const request *r)
{
  const backend *b = m->shared.backend;
  const bool in_two_parts = b->functions.model_instance_execute_begin != NULL;
  uint64_t limit_ns = r->is_alone && !in_two_parts ? RUN_ALONE_NS : RUN_INLINE_NS;
  return r->may_run_inline && !r->on_device && m->shared.sequences == NULL &&
         (b->computes || in_two_parts) &&
         atomic_load_explicit(&m->shared.typical_ns, memory_order_relaxed) <= limit_ns;
}

// Runs a request on the calling thread in place of an idle instance. False: queue it. If it takes
// long, and the backend allows it, the instance's own thread ends it.
static bool run_inline(model *m, request *r)
{
  scheduler *s = m->shared.scheduler;
  claimed_worker *claimed;
  instance *i = submission_may_run_here(m, r) ? scheduler_claim(s, &r->item, &claimed) : NULL;
  if (i == NULL)
    return false;
  model_ref(m); // the request's reference may go with it
  i->items[0] = &r->item;
  if (execute_briefly(i)) {
    instance_give_back(i);
    scheduler_release(s, claimed);
  } else {
    scheduler_hand_off(s, claimed);
  }
  model_unref(m);
  return true;
}

static error *report_start(trace *t, const request *r)
{
  RETURN_IF_ERROR(trace_follow(t, r));
  trace_report(t, TRITONSERVER_TRACE_REQUEST_START, r->times.start);
  trace_report(t, TRITONSERVER_TRACE_QUEUE_START, clock_monotonic_ns());
  trace_report_inputs(t, r);
  return NULL;
}

// On success the trace belongs to the response factory.
static error *prepare(request *r, trace *t)
{
  RETURN_IF_ERROR(request_prepare(r));
  if (t != NULL)
    RETURN_IF_ERROR(report_start(t, r));
  r->factory->trace = t;
  return NULL;
}

// From here on the request is the core's.
static void begin(request *r)
{
  r->factory->start_ns = r->times.start;
  r->factory->answer_owed = true;
  request_set_state(r, REQUEST_PENDING);
}

// Hands the request to what executes its model. False: *e is set, and the request is the caller's.
static inline bool admit(model *m, request *r, bool may_run_here, error **e, refused_reason *why)
{
  *why = REFUSED_RESOURCES;
  if (m->runner != NULL)
    return (*e = m->runner->begin(m, r)) == NULL;
  return (may_run_here && run_inline(m, r)) || enqueue(m, r, e, why);
}

// True: the request is answered, or a thread of the cache has it.
static bool ask_cache(model *m, request *r)
{
  cache_lookups *lookups = model_cache_lookups(m->cache);
  if (lookups == NULL)
    return model_cache_answer(m->cache, r);
  if (cache_lookups_add(lookups, r))
    return true;
  model_cache_skip(m->cache, r);
  return false;
}

static error *submit(request *r, trace *t)
{
  model *m = model_of_target(r->target);
  r->times = (request_times){.start = clock_monotonic_ns()};
  error *e = prepare(r, t);
  if (e != NULL)
    return refuse_submission(r, e, REFUSED_INVALID);
  response_factory *f = r->factory;
  r->item.slot = m->shared.ordering != NULL ? &f->slot : NULL;
  if (!r->is_step)                            // a step has the value of its ensemble's request
    r->item.may_go_ahead = r->may_run_inline; // for the same reasons: a client's request, not large
  begin(r);
  refused_reason why;
  if (m->cache != NULL && ask_cache(m, r))
    return NULL;
  if (admit(m, r, true, &e, &why))
    return NULL;
  f->answer_owed = false;
  f->trace = NULL;
  return refuse_submission(r, e, why);
}

error *submit_request(request *r, trace *t)
{
  request_state state = atomic_load_explicit(&r->state, memory_order_acquire);
  bool submitted = state == REQUEST_PENDING || state == REQUEST_EXECUTING;
  error *e =
      submitted ? request_error(r, ERROR_INVALID_ARG,
                                "the request for model '%s' was submitted already", r->target->name)
                : submit(r, t);
  if (e != NULL && t != NULL)
    trace_release(t);
  return e;
}

void submit_looked_up(request *r)
{
  error *e;
  refused_reason why;
  model *m = model_of_target(r->target);
  if (model_cache_answer(m->cache, r))
    return;
  if (m->runner != NULL && request_is_cancelled(r)) { // the runner would not notice
    refuse_request(r, refusal_error(r, REFUSAL_CANCELLED), FAILURE_CANCELED);
    return;
  }
  if (admit(m, r, false, &e, &why))
    return;
  statistics_count_refusal(&r->target->shared_statistics, why);
  refuse_request(r, e, FAILURE_REJECTED);
}

void submit_to_instance(instance *i, request *const *requests, size_t count)
{
  uint64_t now = clock_monotonic_ns();
  for (size_t n = 0; n < count; n++) {
    requests[n]->times = (request_times){.start = now};
    requests[n]->item.enqueued_ns = now;
    begin(requests[n]);
    i->items[n] = &requests[n]->item;
  }
  execute_alone(i, count);
}

error *submit_cancel(request *r)
{
  model *m = model_of_target(r->target);
  if (r->factory == NULL)
    return request_error(r, ERROR_INTERNAL,
                         "It is not possible to cancel an inference request before calling "
                         "TRITONSERVER_InferAsync.");
  atomic_store_explicit(&r->factory->cancelled, true,
                        memory_order_seq_cst); // before the look for a run
  if (m->runner != NULL)
    m->runner->cancel(r);
  else if (model_queue_cancel(m, r))
    cancelled_requests_add(&m->cancelled, &r->item);
  else if (m->shared.backend->functions.model_cancelled != NULL)
    m->shared.backend->functions.model_cancelled(m);
  return NULL;
}
