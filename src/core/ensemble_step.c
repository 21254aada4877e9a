// SPDX-License-Identifier: Apache-2.0
// A step is over when its request has its final answer and its release, and its submitter is done.
// The thread that sees the last of these continues; a chain of steps that are over at once is a
// loop here.
#include "core/ensemble_step.h"

#include "core/ensemble_buffer.h"
#include "core/ensemble_limit.h"
#include "core/ensemble_run.h"
#include "core/submit.h"

#include <assert.h>
#include <string.h>

// The thread that begins steps.
typedef struct circumstances {
  bool has_time; // the last step may run here
  bool blocks;   // it may wait for a step's max_inflight_requests
} circumstances;

static void proceed(ensemble_wave *w, ensemble_steps *ready, circumstances now);

static void append(ensemble_steps *list, ensemble_step *s)
{
  s->next = NULL;
  if (list->first == NULL)
    list->first = s;
  else
    list->last->next = s;
  list->last = s;
}

static ensemble_step *take_first(ensemble_steps *list)
{
  ensemble_step *s = list->first;
  if (s != NULL)
    list->first = s->next;
  return s;
}

// ---- tensors ----

typedef struct ready_steps {
  ensemble_wave *wave;
  ensemble_steps *list;
} ready_steps;

static void add_ready(void *context, uint32_t step)
{
  const ready_steps *to = context;
  append(to->list, &to->wave->steps[step]);
}

static void put(ensemble_wave *w, uint32_t tensor, ensemble_value value, ensemble_steps *ready)
{
  ready_steps to = {w, ready};
  w->values[tensor] = value;
  flow_put(&w->flow, tensor, add_ready, &to);
}

void ensemble_put_input(ensemble_run *run, uint32_t tensor, const request_input *input,
                        ensemble_steps *ready)
{
  put(&run->first, tensor, (ensemble_value){.input = input}, ready);
}

static const response_output *find_output(const response *r, slice name)
{
  const response_output *output = r->outputs;
  while (output != NULL && !slice_equal(output->name, name))
    output = output->next;
  return output;
}

static void drop_reader(ensemble_wave *w, uint32_t source)
{
  ensemble_step *s = &w->steps[source];
  if (s->response == NULL || !flow_drop_reader(&w->flow, source))
    return;
  response *last = s->response;
  s->response = NULL;
  response_free(last);
}

// Outputs that the answer does not have are there without data.
static void put_outputs(ensemble_step *s, ensemble_steps *ready)
{
  const ensemble_graph_step *step = &s->wave->run->graph->steps[s->index];
  if (s->response == NULL)
    return;
  if (s->request != NULL) // else the answer has begun the wave
    s->batch_size = s->request->batch_size;
  for (uint32_t i = 0; i < step->output_count; i++) {
    const ensemble_link *link = &step->outputs[i];
    put(s->wave, link->tensor, (ensemble_value){.output = find_output(s->response, link->name)},
        ready);
  }
  drop_reader(s->wave, s->index);
}

// ---- a request ----

static error *add_data(request *r, const char *name, const ensemble_value *v)
{
  if (v->output != NULL) {
    const buffer_attributes *a = &v->output->attributes;
    return request_append_input_data(r, name,
                                     (input_segment){v->output->buffer, a->byte_size,
                                                     a->memory_type, a->memory_type_id,
                                                     a->has_cuda_ipc_handle ? a : NULL});
  }
  for (uint32_t i = 0; i < v->input->data.segment_count; i++)
    RETURN_IF_ERROR(request_append_input_data(r, name, v->input->data.segments[i]));
  for (const policy_data *p = v->input->policies; p != NULL; p = p->next)
    for (uint32_t i = 0; i < p->data.segment_count; i++)
      RETURN_IF_ERROR(request_append_policy_data(r, name, p->data.segments[i], p->policy.data));
  return NULL;
}

// The request belongs to the sequence of its first tensor that a step wrote.
static void follow_sequence(request *r, const ensemble_step *source, bool *followed)
{
  if (*followed)
    return;
  *followed = true;
  r->correlation_text = source->sequence.text;
  r->correlation_id = source->sequence.number;
  r->flags = source->sequence.flags;
}

static error *add_input(ensemble_step *s, const ensemble_link *link, bool *followed)
{
  const ensemble_wave *w = s->wave;
  const request *whole = w->run->request;
  const ensemble_value *v = &w->values[link->tensor];
  request *r = s->request;
  uint32_t source = w->run->graph->tensors[link->tensor].source;
  uint32_t batch_size = source == ENSEMBLE_NONE ? whole->batch_size : w->steps[source].batch_size;
  if (source != ENSEMBLE_NONE)
    follow_sequence(r, &w->steps[source], followed);
  if (v->output == NULL && v->input == NULL)
    return NULL;
  const int64_t *dims = v->output != NULL ? v->output->dims : v->input->dims;
  uint32_t count = v->output != NULL ? v->output->dim_count : v->input->dim_count;
  int64_t *room = arena_allocate_array(&r->input_memory, count + 1, sizeof(*room));
  if (room == NULL)
    return error_no_memory();
  const model_signature *signature = &r->target->signature;
  dims = ensemble_shape(signature_find_input(signature, link->name), signature->max_batch_size > 0,
                        batch_size, dims, &count, room);
  RETURN_IF_ERROR(request_add_input(r, link->name.data,
                                    v->output != NULL ? v->output->datatype : v->input->datatype,
                                    dims, count, false));
  return add_data(r, link->name.data, v);
}

static void responded(response *answer_owned, uint32_t flags, void *step);
static void released(request *r, uint32_t flags, void *step);

// Borrows what belongs to the whole request, which outlives its steps.
static void copy_properties(request *r, const request *whole)
{
  r->id = whole->id;
  r->flags = whole->flags;
  r->correlation_id = whole->correlation_id;
  r->correlation_text = whole->correlation_text;
  r->priority = whole->priority;
  r->timeout_us = whole->timeout_us;
  r->item.may_go_ahead = whole->item.may_go_ahead;
  r->parameters = whole->parameters;
  r->parameter_count = whole->parameter_count;
}

static error *make_request(ensemble_step *s)
{
  ensemble_run *run = s->wave->run;
  const ensemble_graph_step *step = &run->graph->steps[s->index];
  bool followed = false;
  RETURN_IF_ERROR(request_new(&ensemble_step_model(run, s->index)->target, &s->request));
  request *r = s->request;
  r->times.start = 1; // else it would count as a request that its client failed to write
  r->is_step = true;
  copy_properties(r, run->request);
  for (uint32_t i = 0; i < step->input_count; i++)
    RETURN_IF_ERROR(add_input(s, &step->inputs[i], &followed));
  s->sequence.text = r->correlation_text;
  s->sequence.number = r->correlation_id;
  s->sequence.flags = r->flags;
  r->requested_outputs = step->output_names;
  r->requested_output_count = step->output_count;
  r->allocator = &ensemble_allocator;
  r->response_callback = responded;
  r->release_callback = released;
  r->allocator_context = r->response_context = r->release_context = s;
  return NULL;
}

// ---- its answers ----

static void go_on_after(follow_up *f, bool has_time);
static void begin_aside(follow_up *f, bool has_time);

static void leave(ensemble_step *s)
{
  if (refcount_drop(&s->awaited))
    follow_up_add(s->request, &s->over);
}

static error *wrong_type(const char *name, const char *types)
{
  return error_new(ERROR_INVALID_ARG, "expect parameter '%s' to be %s", name, types);
}

// Triton's models name with these parameters the sequence of their tensors. The text stays with the
// answer.
static error *read_sequence(ensemble_step *s, const response *answer)
{
  bool says = false;
  uint32_t flags = 0;
  for (uint32_t i = 0; i < answer->parameter_count; i++) {
    const parameter *p = &answer->parameters[i];
    if (strncmp(p->name, "sequence_", strlen("sequence_")) != 0)
      continue; // most parameters
    bool starts = strcmp(p->name, "sequence_start") == 0;
    bool ends = strcmp(p->name, "sequence_end") == 0;
    bool names = strcmp(p->name, "sequence_id") == 0;
    if (names && p->type != TRITONSERVER_PARAMETER_INT && p->type != TRITONSERVER_PARAMETER_STRING)
      return error_new(ERROR_INVALID_ARG,
                       "expected parameter 'sequence_id' to be TRITONSERVER_PARAMETER_INT or "
                       "TRITONSERVER_PARAMETER_STRING");
    if ((starts || ends) && p->type != TRITONSERVER_PARAMETER_BOOL)
      return wrong_type(p->name, "TRITONSERVER_PARAMETER_BOOL");
    if (names) {
      bool is_text = p->type == TRITONSERVER_PARAMETER_STRING;
      s->sequence.text = is_text ? p->value.string : NULL;
      s->sequence.number = is_text ? 0 : (uint64_t)p->value.integer;
    }
    if (starts && p->value.boolean)
      flags |= TRITONSERVER_REQUEST_FLAG_SEQUENCE_START;
    if (ends && p->value.boolean)
      flags |= TRITONSERVER_REQUEST_FLAG_SEQUENCE_END;
    says = says || starts || ends || names;
  }
  if (says)
    s->sequence.flags = flags;
  return NULL;
}

// The wave may outlive the text's owner, but not the answer.
static error *keep_text(const char **text, response *answer)
{
  if (*text == NULL)
    return NULL;
  *text = arena_copy_text(&answer->memory, slice_of(*text));
  return *text == NULL ? error_no_memory() : NULL;
}

// An answer of a decoupled model begins a wave, in which its step is over already.
static error *begin_wave(const ensemble_step *s, response **answer)
{
  ensemble_steps ready = {NULL, NULL};
  ensemble_wave *w = ensemble_wave_new(s->wave->run);
  if (w == NULL)
    return error_no_memory();
  ensemble_step *at = &w->steps[s->index];
  at->batch_size = s->request->batch_size;
  at->sequence = s->sequence;
  error *e = keep_text(&at->sequence.text, *answer);
  if (e == NULL)
    e = read_sequence(at, *answer);
  if (e == NULL) {
    at->response = *answer;
    *answer = NULL;
    put_outputs(at, &ready);
  }
  // This thread must not wait if another step of the same model may wait for it.
  const bool recurs = s->wave->run->graph->steps[s->index].recurs;
  proceed(w, &ready, (circumstances){.blocks = !recurs});
  return e;
}

static error *take_answer(ensemble_step *s, response **answer)
{
  ensemble_run *run = s->wave->run;
  const model *m = ensemble_step_model(run, s->index);
  if ((*answer)->failure != NULL) {
    error *failure = (*answer)->failure;
    (*answer)->failure = NULL;
    return failure;
  }
  if (flow_has_failed(&run->flow))
    return NULL;
  if (m->target.signature.decoupled)
    return begin_wave(s, answer);
  if (s->response != NULL)
    return error_new(ERROR_INTERNAL,
                     "model '%s' answered a request twice, which only decoupled models may do",
                     m->name);
  if (s->sequence.text != run->request->correlation_text)
    RETURN_IF_ERROR(keep_text(&s->sequence.text, *answer)); // it belongs to an earlier answer
  RETURN_IF_ERROR(read_sequence(s, *answer));
  s->response = *answer;
  *answer = NULL;
  return NULL;
}

static void responded(response *answer, uint32_t flags, void *step)
{
  ensemble_step *s = step;
  error *e = answer != NULL ? take_answer(s, &answer) : NULL;
  response_free(answer);
  if (e != NULL)
    ensemble_fail(s->wave->run, e);
  if ((flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) == 0)
    return;
  ensemble_limit_leave(s);
  leave(s);
}

static void released(request *r, uint32_t flags, void *step)
{
  (void)r;
  if ((flags & TRITONSERVER_REQUEST_RELEASE_ALL) != 0)
    leave(step);
}

// ---- from one to the next ----

static error *submit(ensemble_step *s, bool has_time, bool *is_over)
{
  trace *child = NULL;
  ensemble_run *run = s->wave->run;
  trace *parent = run->request->factory->trace;
  if (parent != NULL)
    RETURN_IF_ERROR(trace_spawn(parent, &child));
  s->over.run = go_on_after;
  s->request->may_run_inline =
      has_time && !atomic_load_explicit(&run->has_gpu_tensors, memory_order_relaxed);
  refcount_init_to(&s->awaited, 3);
  error *e = submit_request(s->request, child);
  if (e != NULL) {
    refcount_init_to(&s->awaited, 0);
    return e;
  }
  atomic_store_explicit(&s->submitted, true, memory_order_seq_cst);
  if (flow_has_failed(&run->flow))
    error_free(submit_cancel(s->request)); // it was submitted
  *is_over = refcount_drop(&s->awaited);
  return NULL;
}

// The step holds the wave open. True: it is over already, or never began; else it must not be
// touched any more.
static bool begin_request(ensemble_step *s, bool has_time)
{
  if (flow_has_failed(&s->wave->run->flow)) {
    ensemble_limit_leave(s);
    return true;
  }
  bool is_over = false;
  error *e = make_request(s);
  if (e == NULL)
    e = submit(s, has_time, &is_over);
  if (e == NULL)
    return is_over;
  request_free(s->request);
  s->request = NULL;
  ensemble_limit_leave(s);
  ensemble_fail(s->wave->run, e);
  return true;
}

// True: it is over already, and the caller continues after it.
static bool begin(ensemble_step *s, circumstances now)
{
  if (!flow_begin_step(&s->wave->flow))
    return false;
  s->over.run = begin_aside;
  return ensemble_limit_enter(s, now.blocks) && begin_request(s, now.has_time);
}

// A step is over: passes on its outputs, counts its time, and frees what it read.
static void settle(ensemble_step *s, ensemble_steps *ready)
{
  ensemble_run *run = s->wave->run;
  if (s->request == NULL)
    return; // it never began
  put_outputs(s, ready);
  const request_times *t = &s->request->times;
  if (t->compute_end != 0) {
    const uint64_t moments[] = {t->compute_start, t->compute_input_end, t->compute_output_start,
                                t->compute_end};
    for (size_t i = 0; i < 3; i++)
      atomic_fetch_add_explicit(&run->compute_ns[i], moments[i + 1] - moments[i],
                                memory_order_relaxed);
  }
  request_free(s->request);
  s->request = NULL;
  const ensemble_graph_step *step = &run->graph->steps[s->index];
  for (uint32_t i = 0; i < step->source_count; i++)
    drop_reader(s->wave, step->sources[i]);
}

static void proceed(ensemble_wave *w, ensemble_steps *ready, circumstances now)
{
  ensemble_steps over = {NULL, NULL};
  follow_up *outer;
  for (;;) {
    ensemble_step *s;
    while ((s = take_first(ready)) != NULL) {
      const bool last = ready->first == NULL;
      if (begin(s, (circumstances){now.has_time && last, now.blocks}))
        append(&over, s);
    }
    outer = ensemble_leave_wave(w); // frees the wave, unless a step of it is in `over`
    if ((s = take_first(&over)) == NULL)
      break;
    w = s->wave;
    settle(s, ready);
  }
  if (outer != NULL)
    outer->run(outer, now.has_time);
}

void ensemble_proceed(ensemble_wave *w, ensemble_steps *ready, bool has_time)
{
  proceed(w, ready, (circumstances){.has_time = has_time});
}

static void go_on_after(follow_up *f, bool has_time)
{
  ensemble_step *s = container_of(f, ensemble_step, over);
  ensemble_steps ready = {NULL, NULL};
  settle(s, &ready);
  ensemble_proceed(s->wave, &ready, has_time);
}

static void begin_aside(follow_up *f, bool has_time)
{
  ensemble_step *s = container_of(f, ensemble_step, over);
  if (begin_request(s, has_time))
    go_on_after(f, has_time);
}
