// The request is checked and queued, or run by the thread that brings it in an idle instance's
// place.
#include "core/submit.h"

#include "base/clock.h"
#include "core/execute.h"
#include "core/model.h"
#include "core/refuse.h"

#define RUN_INLINE_NS                                                                              \
  50000 // models that take longer would keep the submitting thread from its work

// Of a submission: time-outs and cancellations come to what is queued.
static refused_reason refused_of(refusal reason)
{
  if (reason == REFUSAL_QUEUE_FULL)
    return REFUSED_QUEUE_FULL;
  return reason == REFUSAL_STOPPED ? REFUSED_STOPPING : REFUSED_RESOURCES;
}

// It never became a request, so that it is no failure of one either: the model's counters of
// failures, and its statistics, leave it out, as Triton's do.
static error *refuse_submission(request *r, error *e, refused_reason reason)
{
  request_set_state(r, REQUEST_INITIALIZED);
  statistics_count_refusal(&r->target->shared_statistics, reason);
  return e;
}

// The threads come with the first request that is queued.
static bool enqueue(model *m, request *r, error **e, refused_reason *why)
{
  refusal reason;
  *why = REFUSED_RESOURCES;
  if (!model_is_started(m) && (*e = model_start(m)) != NULL)
    return false;
  if (scheduler_enqueue(m->shared.scheduler, &r->item, &reason))
    return true; // another thread may have finished it already
  *e = refusal_error(r, reason);
  *why = refused_of(reason);
  return false;
}

static bool may_run_inline(const model *m, const request *r)
{
  const backend *b = m->shared.backend;
  return r->may_run_inline && (b->computes || b->functions.model_instance_execute_begin != NULL) &&
         atomic_load_explicit(&m->shared.typical_ns, memory_order_relaxed) <= RUN_INLINE_NS;
}

// Runs a request on the calling thread in place of an idle instance's. False: queue it. What turns
// out to take long, where the backend lets us leave it, is ended by the instance's own thread.
static bool run_inline(model *m, request *r)
{
  scheduler *s = m->shared.scheduler;
  claimed_worker *claimed;
  instance *i = may_run_inline(m, r) ? scheduler_claim(s, &r->item, &claimed) : NULL;
  if (i == NULL)
    return false;
  model_ref(m); // the request's reference may go with it
  i->items[0] = &r->item;
  if (execute_briefly(i))
    scheduler_release(s, claimed);
  else
    scheduler_hand_off(s, claimed);
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

// On success the trace is the response factory's.
static error *prepare(request *r, trace *t)
{
  RETURN_IF_ERROR(request_prepare(r));
  if (t != NULL)
    RETURN_IF_ERROR(report_start(t, r));
  r->factory->trace = t;
  return NULL;
}

static error *submit(request *r, trace *t)
{
  model *m = model_of_target(r->target);
  r->times = (request_times){.start = clock_monotonic_ns()};
  error *e = prepare(r, t);
  if (e != NULL)
    return refuse_submission(r, e, REFUSED_INVALID);
  response_factory *f = r->factory;
  f->start_ns = r->times.start;
  r->item.slot = m->shared.ordering != NULL ? &f->slot : NULL;
  r->item.may_go_ahead = r->may_run_inline; // by the same reasons: a client's, and not large
  f->answer_owed = true;
  request_set_state(r, REQUEST_PENDING);
  refused_reason why;
  if (run_inline(m, r) || enqueue(m, r, &e, &why))
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

error *submit_cancel(request *r)
{
  model *m = model_of_target(r->target);
  if (r->factory == NULL)
    return request_error(r, ERROR_INTERNAL,
                         "It is not possible to cancel an inference request before calling "
                         "TRITONSERVER_InferAsync.");
  atomic_store_explicit(&r->factory->cancelled, true, memory_order_relaxed);
  if (scheduler_cancel(m->shared.scheduler, &r->item))
    cancelled_requests_add(&m->cancelled, &r->item);
  return NULL;
}
