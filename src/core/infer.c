// Submission, execution, refusal and cancellation of requests.
#include "core/infer.h"

#include "base/clock.h"
#include "base/log.h"
#include "core/model_internal.h"

#include <inttypes.h>

static error *refusal_error(const request *r, refusal reason)
{
  switch (reason) {
  case REFUSAL_QUEUE_FULL:
    return request_error(r, ERROR_UNAVAILABLE, "Exceeds maximum queue size");
  case REFUSAL_NO_MEMORY:
    return error_no_memory();
  case REFUSAL_TIMEOUT:
    return error_new(ERROR_UNAVAILABLE, "Request timeout expired");
  case REFUSAL_CANCELLED:
    return error_new(ERROR_CANCELLED, "Request was cancelled");
  case REFUSAL_STOPPED:
    break;
  }
  return request_error(
      r, ERROR_UNAVAILABLE,
      "Server is stopping, scheduler for model has stopped accepting new inference requests");
}

static failure_reason failure_of(refusal reason)
{
  return reason == REFUSAL_CANCELLED ? FAILURE_CANCELED : FAILURE_REJECTED;
}

// Of a submission: time-outs and cancellations come to what is queued.
static refused_reason refused_of(refusal reason)
{
  if (reason == REFUSAL_QUEUE_FULL)
    return REFUSED_QUEUE_FULL;
  return reason == REFUSAL_STOPPED ? REFUSED_STOPPING : REFUSED_RESOURCES;
}

static void count_failure(request *r, failure_reason reason)
{
  r->times.end = clock_monotonic_ns();
  statistics_count_failure(&r->target->shared_statistics, false, reason, &r->times);
}

// It never became a request, so that it is no failure of one either: the model's counters of
// failures, and its statistics, leave it out, as Triton's do.
static error *refuse_submission(request *r, error *e, refused_reason reason)
{
  atomic_store_explicit(&r->state, REQUEST_INITIALIZED, memory_order_relaxed);
  statistics_count_refusal(&r->target->shared_statistics, reason);
  return e;
}

#define RUN_HERE_NS 50000 // models that take longer would keep the submitting thread from its work
#define AWAIT_US    50    // how long that thread waits for an execution in two parts

static void begin_execution(instance *i, queue_item *const *items, size_t count);
static bool end_execution(instance *i, int64_t timeout_us);

// Follows the durations of executions; one that is slow is believed at once.
static void note_duration(model *m, uint64_t ns)
{
  uint64_t typical = atomic_load_explicit(&m->typical_ns, memory_order_relaxed);
  typical = ns >= INFER_SLOW_NS ? ns : typical - typical / 8 + ns / 8;
  atomic_store_explicit(&m->typical_ns, typical, memory_order_relaxed);
}

// The threads come with the first request that is queued.
static bool enqueue(model *m, request *r, error **e, refused_reason *why)
{
  refusal reason;
  *why = REFUSED_RESOURCES;
  if (!model_is_started(m) && (*e = model_start(m)) != NULL)
    return false;
  if (scheduler_enqueue(m->scheduler, &r->item, &reason))
    return true; // another thread may have finished it already
  *e = refusal_error(r, reason);
  *why = refused_of(reason);
  return false;
}

static bool in_two_parts(const instance *i)
{
  return i->model->backend->functions.model_instance_execute_begin != NULL;
}

static bool may_run_here(const model *m, const request *r)
{
  const backend *b = m->backend;
  return r->may_run_here && (b->computes || b->functions.model_instance_execute_begin != NULL) &&
         atomic_load_explicit(&m->typical_ns, memory_order_relaxed) <= RUN_HERE_NS;
}

// Runs a request on the calling thread in place of an idle instance's. False: queue it. What turns
// out to take long, where the backend lets us leave it, is ended by the instance's own thread.
static bool run_here(model *m, request *r)
{
  scheduler_loan *loan;
  instance *i = may_run_here(m, r) ? scheduler_borrow(m->scheduler, &r->item, &loan) : NULL;
  if (i == NULL)
    return false;
  model_ref(m); // the request's reference may go with it
  bool ended = true;
  i->items[0] = &r->item;
  if (in_two_parts(i)) {
    begin_execution(i, i->items, 1);
    ended = i->begun_count == 0 || end_execution(i, AWAIT_US);
  } else {
    infer_execute(i, 1);
  }
  if (ended)
    scheduler_give_back(m->scheduler, loan);
  else
    scheduler_hand_over(m->scheduler, loan);
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

// As the name says; on success the trace is the response factory's.
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
  r->item.slot = m->ordering != NULL ? &f->slot : NULL;
  r->item.may_go_ahead = r->may_run_here; // by the same reasons: a client's, and not large
  f->answer_owed = true;
  atomic_store_explicit(&r->state, REQUEST_PENDING, memory_order_release);
  refused_reason why;
  if (run_here(m, r) || enqueue(m, r, &e, &why))
    return NULL;
  f->answer_owed = false;
  f->trace = NULL;
  return refuse_submission(r, e, why);
}

error *infer_submit(request *r, trace *t)
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

void infer_fail(request *r, error *failure_owned, failure_reason reason)
{
  response *answer;
  count_failure(r, reason);
  error *e = response_new(r->factory, &answer);
  if (e == NULL) {
    e = response_send(answer, TRITONSERVER_RESPONSE_COMPLETE_FINAL, failure_owned);
  } else {
    const log_subject subject = {
        .request_id = r->id.data, .model = r->target->name, .version = r->target->version};
    log_error_about(&subject, "failed to answer (%s) with the error: %s", error_message(e),
                    error_message(failure_owned));
    error_free(failure_owned);
    error_free(e);
    e = response_factory_send_flags(r->factory, TRITONSERVER_RESPONSE_COMPLETE_FINAL);
  }
  error_free(e); // answered before: nothing is lost
  request_release(r, TRITONSERVER_REQUEST_RELEASE_ALL);
}

void infer_refused(void *context, queue_item *item_owned, refusal reason)
{
  (void)context;
  request *r = request_of_item(item_owned);
  infer_fail(r, refusal_error(r, reason), failure_of(reason));
}

static void answer_cancelled(request *r)
{
  infer_fail(r, refusal_error(r, REFUSAL_CANCELLED), FAILURE_CANCELED);
}

uint64_t infer_answer_cancelled(void *context, uint64_t now_ns)
{
  model *m = context;
  (void)now_ns;
  pthread_mutex_lock(&m->cancelled_lock);
  queue_item *item = m->cancelled;
  m->cancelled = NULL;
  pthread_mutex_unlock(&m->cancelled_lock);
  while (item != NULL) { // the model may be gone from its last request on
    queue_item *next = item->next;
    answer_cancelled(request_of_item(item));
    item = next;
  }
  return CLOCK_NEVER;
}

error *infer_cancel(request *r)
{
  model *m = model_of_target(r->target);
  if (r->factory == NULL)
    return request_error(r, ERROR_INTERNAL,
                         "It is not possible to cancel an inference request before calling "
                         "TRITONSERVER_InferAsync.");
  atomic_store_explicit(&r->factory->cancelled, true, memory_order_relaxed);
  if (!scheduler_cancel(m->scheduler, &r->item))
    return NULL;
  pthread_mutex_lock(&m->cancelled_lock);
  r->item.next = m->cancelled;
  m->cancelled = &r->item;
  pthread_mutex_unlock(&m->cancelled_lock);
  timekeeper_arm(m->environment.timekeeper, &m->cancelled_timer, 0);
  return NULL;
}

// Moves the requests that are still wanted to the batch, from `at` on; cancelled ones are answered
// here and never reach the backend.
static uint32_t collect_batch(instance *i, size_t at, queue_item *const *items, size_t count)
{
  uint32_t kept = 0, rows = 0;
  uint64_t now = clock_monotonic_ns();
  for (size_t n = 0; n < count; n++) {
    request *r = request_of_item(items[n]);
    r->times.queue_start = r->item.enqueued_ns;
    r->times.compute_start = now;
    atomic_store_explicit(&r->state, REQUEST_EXECUTING, memory_order_relaxed);
    r->factory->ordering = i->model->ordering; // taking it reserved its place
    r->factory->executed_ns = now;
    if (request_is_cancelled(r)) {
      answer_cancelled(r);
      continue;
    }
    r->place = &i->executing[at + kept];
    atomic_store_explicit(r->place, r, memory_order_relaxed);
    i->batch[at + kept++] = r;
    rows += request_rows(r);
  }
  for (uint32_t n = 0; n < kept; n++)
    i->batch[at + n]->factory->executed_rows = rows;
  return kept;
}

// The backend refused the batch as a whole: it owns no request of it. Those that it released all
// the same are gone.
static void fail_batch(instance *i, size_t at, uint32_t count, error *e_owned)
{
  for (uint32_t n = 0; n < count; n++) {
    request *r = atomic_exchange_explicit(&i->executing[at + n], NULL, memory_order_acq_rel);
    if (r != NULL)
      infer_fail(r, error_new(error_get_code(e_owned), "%s", error_message(e_owned)),
                 FAILURE_BACKEND);
  }
  error_free(e_owned);
}

static void execute_at_once(instance *i, size_t count)
{
  uint32_t kept = collect_batch(i, 0, i->items, count);
  if (kept == 0)
    return;
  uint64_t begin = clock_monotonic_ns();
  error *e = (error *)i->model->backend->functions.model_instance_execute(
      (TRITONBACKEND_ModelInstance *)i, (TRITONBACKEND_Request **)i->batch, kept);
  note_duration(i->model, clock_monotonic_ns() - begin);
  if (e != NULL)
    fail_batch(i, 0, kept, e);
}

void infer_execute(instance *i, size_t count)
{
  if (!in_two_parts(i)) {
    execute_at_once(i, count);
    return;
  }
  begin_execution(i, i->items, count);
  infer_end(i);
}

// Begins an execution behind those that have not ended.
static void begin_execution(instance *i, queue_item *const *items, size_t count)
{
  size_t at = (i->first_begun + i->begun_count) % MAX_INSTANCE_BEGUN;
  uint32_t kept = collect_batch(i, at, items, count);
  if (kept == 0)
    return;
  bool pending = false;
  i->begun_ns[at] = clock_monotonic_ns();
  error *e = (error *)i->model->backend->functions.model_instance_execute_begin(
      (TRITONBACKEND_ModelInstance *)i, (TRITONBACKEND_Request **)&i->batch[at], kept, &pending);
  if (e != NULL)
    fail_batch(i, at, kept, e);
  else if (pending)
    i->begun_count++;
  else
    note_duration(i->model, clock_monotonic_ns() - i->begun_ns[at]);
}

// Waits for the end of the first one. False: it has not come in time.
static bool end_execution(instance *i, int64_t timeout_us)
{
  bool pending = true;
  i->model->backend->functions.model_instance_execute_end((TRITONBACKEND_ModelInstance *)i,
                                                          timeout_us, &pending);
  if (pending)
    return false;
  uint64_t begun_ns = i->begun_ns[i->first_begun];
  uint64_t from_ns = begun_ns > i->ended_ns ? begun_ns : i->ended_ns;
  i->ended_ns = clock_monotonic_ns();
  note_duration(i->model, i->ended_ns - from_ns);
  i->begun_count--;
  i->first_begun = i->begun_count == 0 ? 0 : (i->first_begun + 1) % MAX_INSTANCE_BEGUN;
  return true;
}

// Begins what waits, as far as the backend takes it before it has ended the execution under way.
static void begin_ahead(instance *i)
{
  uint32_t (*most)(TRITONBACKEND_ModelInstance *) =
      i->model->backend->functions.model_instance_executions_most;
  scheduler *s = i->model->scheduler;
  while (most != NULL && i->begun_count < MAX_INSTANCE_BEGUN && scheduler_pending(s) > 0 &&
         i->begun_count < most((TRITONBACKEND_ModelInstance *)i)) {
    queue_item *item = scheduler_take_ahead(s, i->model->instance_count - 1);
    if (item == NULL)
      return;
    begin_execution(i, &item, 1);
  }
}

void infer_end(instance *i)
{
  while (i->begun_count > 0) {
    begin_ahead(i);
    end_execution(i, -1);
  }
}
