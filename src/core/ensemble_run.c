// SPDX-License-Identifier: Apache-2.0
// The thread that ends the last wave answers and releases the request.
#include "core/ensemble_run.h"

#include "base/clock.h"
#include "base/thread.h"
#include "core/ensemble_buffer.h"
#include "core/ensemble_late.h"
#include "core/ensemble_limit.h"
#include "core/refuse.h"
#include "core/submit.h"

#include <assert.h>
#include <stdlib.h>

// ---- memory ----

static size_t padded(size_t size)
{
  return (size + _Alignof(max_align_t) - 1) / _Alignof(max_align_t) * _Alignof(max_align_t);
}

static size_t wave_size(const ensemble_graph *g)
{
  return padded(g->step_count * sizeof(ensemble_step)) +
         padded(g->tensor_count * sizeof(ensemble_value)) + padded(flow_counts_size(g));
}

static void init_wave(ensemble_wave *w, ensemble_run *run, char *memory)
{
  const ensemble_graph *g = run->graph;
  w->run = run;
  w->steps = (ensemble_step *)memory;
  memory += padded(g->step_count * sizeof(ensemble_step));
  w->values = (ensemble_value *)memory;
  memory += padded(g->tensor_count * sizeof(ensemble_value));
  flow_wave_init(&w->flow, g, run->plan, &run->flow, memory);
  for (uint32_t s = 0; s < g->step_count; s++) {
    w->steps[s].wave = w;
    w->steps[s].index = s;
  }
  pthread_mutex_lock(&run->lock);
  w->next = run->waves;
  if (w->next != NULL)
    w->next->previous = w;
  run->waves = w;
  pthread_mutex_unlock(&run->lock);
}

static void choose_plan(ensemble_run *run, void *memory)
{
  const request *r = run->request;
  run->plan = &run->graph->all;
  if (r->requested_output_count == 0 || r->requested_output_count == run->graph->output_count)
    return;
  ensemble_plan_init(&run->own_plan, run->graph, r->requested_outputs, r->requested_output_count,
                     memory);
  run->plan = &run->own_plan;
}

ensemble_run *ensemble_run_new(ensemble *e, model *m, request *r)
{
  const ensemble_graph *g = e->graph;
  size_t models = padded(sizeof(ensemble_run) + g->step_count * sizeof(model *));
  size_t waves = wave_size(g);
  char *memory = calloc(1, models + waves + ensemble_plan_size(g));
  if (memory == NULL)
    return NULL;
  ensemble_run *run = (ensemble_run *)memory;
  run->ensemble = e;
  run->model = m;
  run->request = r;
  run->graph = g;
  run->has_waves = r->target->signature.decoupled;
  choose_plan(run, memory + models + waves);
  pthread_mutex_init(&run->lock, NULL);
  flow_run_init(&run->flow);
  init_wave(&run->first, run, memory + models);
  r->factory->run = run;
  return run;
}

ensemble_wave *ensemble_wave_new(ensemble_run *run)
{
  size_t head = padded(sizeof(ensemble_wave));
  char *memory = calloc(1, head + wave_size(run->graph));
  if (memory == NULL)
    return NULL;
  ensemble_wave *w = (ensemble_wave *)memory;
  init_wave(w, run, memory + head);
  return w;
}

static void free_responses(ensemble_wave *w)
{
  for (uint32_t s = 0; s < w->run->graph->step_count; s++) {
    assert(refcount_peek(&w->steps[s].awaited) == 0 && w->steps[s].request == NULL);
    response_free(w->steps[s].response);
    w->steps[s].response = NULL;
  }
}

static void free_wave(ensemble_wave *w)
{
  ensemble_run *run = w->run;
  pthread_mutex_lock(&run->lock);
  if (w->previous != NULL)
    w->previous->next = w->next;
  else
    run->waves = w->next;
  if (w->next != NULL)
    w->next->previous = w->previous;
  pthread_mutex_unlock(&run->lock);
  if (w != &run->first)
    free(w);
}

// ---- the end ----

// Counted as in Triton: the computing times are its steps', the execution is one.
static void count_success(const ensemble_run *run)
{
  request *r = run->request;
  statistics *counters = &r->target->shared_statistics;
  uint64_t ns[3];
  for (size_t i = 0; i < 3; i++)
    ns[i] = atomic_load_explicit(&run->compute_ns[i], memory_order_relaxed);
  r->times.queue_start = r->times.compute_start = r->times.start;
  r->times.compute_input_end = r->times.compute_start + ns[0];
  r->times.compute_output_start = r->times.compute_input_end + ns[1];
  r->times.compute_end = r->times.compute_output_start + ns[2];
  r->times.end = clock_monotonic_ns();
  statistics_count_success(counters, false, &r->times, request_rows(r));
  statistics_count_execution(counters, false, request_rows(r), ns[0], ns[1], ns[2]);
  if (r->target->summaries != NULL)
    latency_summaries_add(r->target->summaries, &r->times);
}

static error *no_answer(const ensemble_run *run)
{
  return ensemble_error(
      run, request_error(run->request, ERROR_INVALID_ARG,
                         "unexpected deadlock, at least one output is not set while no more "
                         "ensemble steps can be made"));
}

// NULL: the run succeeded.
static error *take_failure(ensemble_run *run, const response *answer)
{
  error *failure = run->failure;
  run->failure = NULL;
  if (failure != NULL)
    return failure;
  if (flow_has_failed(&run->flow))
    return ensemble_error(run, error_new(ERROR_CANCELLED, "Request was cancelled"));
  bool silent = answer == NULL &&
                atomic_load_explicit(&run->flow.answers, memory_order_relaxed) == 0 &&
                !run->request->target->signature.decoupled;
  return silent ? no_answer(run) : NULL;
}

// The release frees the run.
static void finish(ensemble_run *run, response *answer)
{
  request *r = run->request;
  const ensemble_graph *g = run->graph;
  error *failure = take_failure(run, answer);
  for (uint32_t s = 0; s < g->step_count; s++)
    if (g->steps[s].same == s && run->models[s] != NULL)
      model_unref(run->models[s]);
  if (failure != NULL) {
    response_free(answer != NULL ? answer : run->answer);
    run->answer = NULL;
    refuse_request(r, failure,
                   error_get_code(failure) == ERROR_CANCELLED ? FAILURE_CANCELED : FAILURE_OTHER);
    return;
  }
  count_success(run);
  error_free(answer != NULL
                 ? response_send(answer, TRITONSERVER_RESPONSE_COMPLETE_FINAL, NULL)
                 : response_factory_send_flags(r->factory, TRITONSERVER_RESPONSE_COMPLETE_FINAL));
  request_release(r, TRITONSERVER_REQUEST_RELEASE_ALL);
}

// The ensemble may itself be a step, which this ends.
static follow_up *finish_in_scope(ensemble_run *run, response *answer)
{
  follow_up_scope scope;
  follow_up_open(&scope, run->request);
  finish(run, answer);
  return follow_up_close(&scope);
}

follow_up *ensemble_leave_wave(ensemble_wave *w)
{
  ensemble_run *run = w->run;
  response *answer = NULL;
  if (!flow_leave_wave(&w->flow))
    return NULL;
  flow_answer says = flow_wave_answer(&w->flow);
  error *e = says != FLOW_SILENT ? ensemble_write_answer(w, &answer) : NULL;
  if (e != NULL)
    ensemble_fail(run, e);
  free_responses(w);
  if (says == FLOW_ANSWER && answer != NULL)
    error_free(response_send(answer, 0, NULL));
  flow_run *flow = &run->flow;
  free_wave(w);
  return flow_end_wave(flow) ? finish_in_scope(run, says == FLOW_LAST ? answer : NULL) : NULL;
}

// ---- failure ----

error *ensemble_error(const ensemble_run *run, error *cause)
{
  error *e = error_new(error_get_code(cause), "in ensemble '%s', %s", run->model->name,
                       error_message(cause));
  error_free(cause);
  return e;
}

// The counts taken here keep the steps' requests. No callback runs inside a call that cancels. Only
// the thread whose failure is the run's first comes here, so `next` is free for the list.
static void cancel_steps(ensemble_run *run)
{
  ensemble_step *found = NULL, *next;
  ensemble *e = run->ensemble;
  pthread_mutex_lock(&run->lock);
  for (ensemble_wave *w = run->waves; w != NULL; w = w->next)
    for (uint32_t i = 0; i < run->graph->step_count; i++) {
      ensemble_step *s = &w->steps[i];
      if (atomic_load_explicit(&s->submitted, memory_order_seq_cst) &&
          refcount_try_take(&s->awaited)) {
        s->next = found;
        found = s;
      }
    }
  pthread_mutex_unlock(&run->lock);
  ensemble_limit_let_through(run);
  for (; found != NULL; found = next) {
    next = found->next;
    error_free(submit_cancel(found->request)); // it was submitted
    if (refcount_drop(&found->awaited))
      ensemble_late_add(&e->late, found);
  }
}

void ensemble_fail(ensemble_run *run, error *failure)
{
  failure = ensemble_error(run, failure);
  if (!flow_fail(&run->flow)) {
    error_free(failure);
    return;
  }
  run->failure = failure;
  cancel_steps(run);
}

void ensemble_cancel(request *r)
{
  ensemble_run *run = r->factory->run;
  if (run != NULL && flow_fail(&run->flow))
    cancel_steps(run);
}
