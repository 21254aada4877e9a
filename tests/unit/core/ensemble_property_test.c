// SPDX-License-Identifier: Apache-2.0
// Random histories of ensembles' runs: any graph, steps that end in any order, decoupled ones with
// any number of answers, failures and cancellations anywhere, limits of what is under way, and
// time. Each step of a wave begins once and only with all that it reads, no answer is freed while
// somebody reads it or twice, a run ends once, nobody waits for a place that is free or for longer
// than five minutes, and all places are given back. NEREID_HISTORIES=n runs more of them;
// NEREID_SEED=n others.
#include "base/clock.h"
#include "core/ensemble_flow.h"
#include "core/ensemble_places.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define HISTORIES   20000
#define MAX_STEPS   7
#define MAX_TENSORS (2 * MAX_STEPS + 2)
#define MAX_WAVES   64
#define MAX_EVENTS  4096

// ---- chance ----

static uint64_t chance_state;

static uint32_t chance(uint32_t below)
{
  chance_state ^= chance_state << 13;
  chance_state ^= chance_state >> 7;
  chance_state ^= chance_state << 17;
  return (uint32_t)((chance_state >> 33) % below);
}

// ---- a graph ----

typedef struct random_graph {
  ensemble_graph g;
  bool decoupled[MAX_STEPS];
  ensemble_graph_step steps[MAX_STEPS];
  ensemble_tensor tensors[MAX_TENSORS];
  ensemble_link links[MAX_STEPS][2];
  uint32_t reads[MAX_STEPS][3], sources[MAX_STEPS][3];
  uint32_t readers[MAX_TENSORS][MAX_STEPS];
  uint32_t outputs[MAX_TENSORS];
  uint32_t label[MAX_TENSORS]; // tensors with one label come in the same wave
  char names[MAX_TENSORS][8];
  uint32_t plan_memory[4 * MAX_STEPS + MAX_TENSORS];
} random_graph;

static uint32_t add_tensor(random_graph *r, uint32_t source, uint32_t label)
{
  uint32_t t = r->g.tensor_count++;
  snprintf(r->names[t], sizeof(r->names[t]), "t%u", t);
  r->tensors[t] = (ensemble_tensor){.name = r->names[t],
                                    .source = source,
                                    .readers = r->readers[t],
                                    .output = ENSEMBLE_NONE,
                                    .is_input = source == ENSEMBLE_NONE};
  r->label[t] = label;
  return t;
}

static void add_once(uint32_t *items, uint32_t *count, uint32_t item)
{
  for (uint32_t i = 0; i < *count; i++)
    if (items[i] == item)
      return;
  items[(*count)++] = item;
}

// A step reads up to three tensors of one label, and makes a label of its own if it is decoupled.
static void add_step(random_graph *r)
{
  uint32_t s = r->g.step_count++;
  ensemble_graph_step *step = &r->steps[s];
  *step = (ensemble_graph_step){
      .tensors = r->reads[s], .sources = r->sources[s], .outputs = r->links[s]};
  uint32_t first = chance(r->g.tensor_count), wanted = 1 + chance(3);
  add_once(step->tensors, &step->tensor_count, first);
  for (uint32_t tries = 0; tries < 6 && step->tensor_count < wanted; tries++) {
    uint32_t t = chance(r->g.tensor_count);
    if (r->label[t] == r->label[first])
      add_once(step->tensors, &step->tensor_count, t);
  }
  for (uint32_t i = 0; i < step->tensor_count; i++) {
    ensemble_tensor *t = &r->tensors[step->tensors[i]];
    t->readers[t->reader_count++] = s;
    if (t->source != ENSEMBLE_NONE)
      add_once(step->sources, &step->source_count, t->source);
  }
  r->decoupled[s] = chance(5) == 0;
  uint32_t label = r->decoupled[s] ? s + 1 : r->label[first], outputs = 1 + chance(2);
  for (uint32_t i = 0; i < outputs; i++)
    step->outputs[step->output_count++].tensor = add_tensor(r, s, label);
}

// The outputs are some tensors of one label.
static void make_graph(random_graph *r)
{
  memset(r, 0, sizeof(*r));
  r->g.steps = r->steps;
  r->g.tensors = r->tensors;
  r->g.output_tensors = r->outputs;
  uint32_t inputs = 1 + chance(2), steps = 1 + chance(MAX_STEPS);
  for (uint32_t i = 0; i < inputs; i++)
    add_tensor(r, ENSEMBLE_NONE, 0);
  for (uint32_t i = 0; i < steps; i++)
    add_step(r);
  uint32_t last = r->g.tensor_count - 1;
  for (uint32_t t = 0; t < r->g.tensor_count; t++)
    if (r->label[t] == r->label[last] && (t == last || chance(3) == 0)) {
      r->tensors[t].output = r->g.output_count;
      r->outputs[r->g.output_count++] = t;
    }
  assert_true(ensemble_plan_size(&r->g) <= sizeof(r->plan_memory));
}

// ---- a run ----

typedef enum step_phase {
  NOT_BEGUN,
  ASIDE, // it waits for a place
  UNDER_WAY,
  OVER
} step_phase;
typedef enum answer_phase {
  NO_ANSWER,
  HELD,
  FREED
} answer_phase;

typedef struct wave {
  flow_wave flow;
  uint32_t counts[2 * MAX_STEPS];
  bool is_there[MAX_TENSORS];
  step_phase steps[MAX_STEPS];
  answer_phase answers[MAX_STEPS];
  ensemble_place places[MAX_STEPS];
  uint64_t asides[MAX_STEPS]; // who came how many-th to wait for a place
  bool has_place[MAX_STEPS];
  bool is_over;
} wave;

typedef struct history {
  random_graph graph;
  ensemble_plan plan;
  flow_run run;
  wave waves[MAX_WAVES];
  uint32_t wave_count;
  uint32_t ready[MAX_STEPS], ready_count; // of the wave that is looked at
  uint32_t under_way, aside;
  ensemble_places places[MAX_STEPS]; // of each step of all waves
  uint32_t overdue[MAX_STEPS];       // that are under way beyond the limit
  uint64_t now_ns, put_aside;
  uint32_t answers, ends, begun;
  bool failed;
  uint64_t events, all_aside, all_overdue; // of all histories
} history;

static wave *add_wave(history *h)
{
  wave *w = &h->waves[h->wave_count++];
  memset(w, 0, sizeof(*w));
  flow_wave_init(&w->flow, &h->graph.g, &h->plan, &h->run, w->counts);
  return w;
}

static void note_ready(void *context, uint32_t step)
{
  history *h = context;
  h->ready[h->ready_count++] = step;
}

static void put(history *h, wave *w, uint32_t tensor)
{
  assert_false(w->is_there[tensor]);
  w->is_there[tensor] = true;
  flow_put(&w->flow, tensor, note_ready, h);
}

static void drop_reader(wave *w, uint32_t source)
{
  if (w->answers[source] == NO_ANSWER)
    return;
  assert_int_equal(w->answers[source], HELD);
  if (flow_drop_reader(&w->flow, source))
    w->answers[source] = FREED;
}

// The answer of a step is there: its tensors are, too.
static void answer(history *h, wave *w, uint32_t s)
{
  const ensemble_graph_step *step = &h->graph.steps[s];
  w->answers[s] = HELD;
  for (uint32_t i = 0; i < step->output_count; i++)
    put(h, w, step->outputs[i].tensor);
  drop_reader(w, s);
}

static void end_run(history *h)
{
  h->ends++;
  assert_int_equal(h->ends, 1);
  assert_int_equal(h->aside, 0);
  assert_int_equal(h->under_way, 0);
}

// Nothing is kept that nobody reads any more.
static void check_freed(const history *h, const wave *w)
{
  for (uint32_t s = 0; s < h->graph.g.step_count; s++) {
    bool wanted = false;
    for (uint32_t i = 0; i < h->graph.steps[s].output_count; i++)
      wanted = wanted || h->plan.wants[h->graph.steps[s].outputs[i].tensor];
    if (w->answers[s] != NO_ANSWER)
      assert_int_equal(w->answers[s], wanted ? HELD : FREED);
  }
}

static void end_wave(history *h, wave *w)
{
  flow_answer says = flow_wave_answer(&w->flow);
  bool complete = true;
  for (uint32_t t = 0; t < h->graph.g.tensor_count; t++)
    if (h->plan.wants[t]) {
      complete = complete && w->is_there[t];
      uint32_t source = h->graph.tensors[t].source;
      if (w->is_there[t] && source != ENSEMBLE_NONE)
        assert_int_equal(w->answers[source], HELD); // what is sent is still there
    }
  assert_int_equal(says != FLOW_SILENT, complete && !h->failed);
  h->answers += says != FLOW_SILENT;
  if (says != FLOW_SILENT)
    check_freed(h, w);
  assert_false(w->is_over);
  w->is_over = true;
  for (uint32_t s = 0; s < h->graph.g.step_count; s++)
    assert_true(w->steps[s] != UNDER_WAY && w->steps[s] != ASIDE);
  if (flow_end_wave(&h->run))
    end_run(h);
  else
    assert_true(says != FLOW_LAST);
}

static bool is_limited(const history *h)
{
  return h->places[0].max > 0;
}

static void begin_step(history *h, wave *w, uint32_t s, bool has_place)
{
  w->steps[s] = UNDER_WAY;
  w->has_place[s] = has_place;
  h->under_way++;
  h->begun++;
  for (uint32_t k = 0; k < h->graph.steps[s].source_count; k++) // what it reads is still there
    assert_int_equal(w->answers[h->graph.steps[s].sources[k]], HELD);
}

// Begins, or waits for a place.
static void begin_or_wait(history *h, wave *w, uint32_t s)
{
  ensemble_places *p = &h->places[s];
  if (!is_limited(h)) {
    begin_step(h, w, s, false);
  } else if (ensemble_places_are_taken(p)) {
    w->steps[s] = ASIDE;
    w->asides[s] = ++h->put_aside;
    h->aside++;
    ensemble_places_wait(p, &w->places[s], h->now_ns);
  } else {
    ensemble_places_take(p);
    begin_step(h, w, s, true);
  }
}

// Begins what is ready and leaves the wave, as whoever made it or ended a step in it does.
static void proceed(history *h, wave *w)
{
  for (uint32_t i = 0; i < h->ready_count; i++) {
    uint32_t s = h->ready[i];
    assert_int_equal(w->steps[s], NOT_BEGUN);
    assert_true(h->plan.needs[s]);
    assert_int_equal(flow_begin_step(&w->flow), !h->failed);
    if (h->failed)
      continue;
    for (uint32_t k = 0; k < h->graph.steps[s].tensor_count; k++)
      assert_true(w->is_there[h->graph.steps[s].tensors[k]]);
    begin_or_wait(h, w, s);
  }
  h->ready_count = 0;
  if (flow_leave_wave(&w->flow))
    end_wave(h, w);
}

// Who waits for a place, and has waited for longer than any other of that step.
static wave *first_aside(history *h, uint32_t s)
{
  wave *first = NULL;
  for (uint32_t n = 0; n < h->wave_count; n++) {
    wave *w = &h->waves[n];
    if (w->steps[s] == ASIDE && (first == NULL || w->asides[s] < first->asides[s]))
      first = w;
  }
  return first;
}

static wave *take_from_aside(history *h, const ensemble_place *place, uint32_t s)
{
  wave *w = first_aside(h, s);
  assert_ptr_equal(place, w == NULL ? NULL : &w->places[s]);
  if (w != NULL)
    h->aside--;
  return w;
}

static void give_place_back(history *h, wave *w, uint32_t s)
{
  if (!w->has_place[s])
    return;
  ensemble_places *p = &h->places[s];
  w->has_place[s] = false;
  const bool goes_on = p->under_way - 1 < p->max && first_aside(h, s) != NULL;
  ensemble_place *next = ensemble_places_leave(p);
  assert_int_equal(next != NULL, goes_on);
  if (h->overdue[s] > 0)
    h->overdue[s]--;
  if (next != NULL)
    begin_step(h, take_from_aside(h, next, s), s, true);
}

// Five minutes are enough, and not less.
static void pass_time(history *h, uint64_t ns)
{
  h->now_ns += ns;
  for (uint32_t s = 0; is_limited(h) && s < h->graph.g.step_count; s++) {
    for (;;) {
      const wave *first = first_aside(h, s);
      const bool is_due =
          first != NULL && h->now_ns - first->places[s].since_ns >= ENSEMBLE_PATIENCE_NS;
      ensemble_place *late = ensemble_places_overdue(&h->places[s], h->now_ns);
      assert_int_equal(late != NULL, is_due);
      if (late == NULL)
        break;
      h->overdue[s]++;
      h->all_overdue++;
      begin_step(h, take_from_aside(h, late, s), s, true);
    }
    const wave *first = first_aside(h, s);
    assert_true(ensemble_places_next_ns(&h->places[s]) ==
                (first == NULL ? CLOCK_NEVER : first->places[s].since_ns + ENSEMBLE_PATIENCE_NS));
  }
}

static void check_places(const history *h)
{
  for (uint32_t s = 0; is_limited(h) && s < h->graph.g.step_count; s++) {
    uint32_t taken = 0;
    for (uint32_t n = 0; n < h->wave_count; n++)
      taken += h->waves[n].has_place[s];
    assert_int_equal(h->places[s].under_way, taken);
    assert_true(taken <= h->places[s].max + h->overdue[s]);
    assert_true(list_is_empty(&h->places[s].waiting) || taken >= h->places[s].max);
  }
}

// The steps that wait are let through: they do not begin.
static void fail_run(history *h)
{
  assert_int_equal(flow_fail(&h->run), !h->failed);
  h->failed = true;
  for (uint32_t n = 0; n < h->wave_count; n++)
    for (uint32_t s = 0; s < h->graph.g.step_count; s++) {
      wave *w = &h->waves[n];
      if (w->steps[s] != ASIDE)
        continue;
      ensemble_places_withdraw(&w->places[s]);
      w->steps[s] = OVER;
      h->aside--;
      proceed(h, w);
    }
}

static void end_step(history *h, wave *w, uint32_t s)
{
  const ensemble_graph_step *step = &h->graph.steps[s];
  bool answers = !h->failed && !h->graph.decoupled[s] && chance(20) != 0;
  for (uint32_t i = 0; i < step->source_count; i++)
    assert_int_equal(w->answers[step->sources[i]], HELD);
  w->steps[s] = OVER;
  h->under_way--;
  give_place_back(h, w, s);
  if (chance(40) == 0)
    fail_run(h);
  else if (answers)
    answer(h, w, s);
  for (uint32_t i = 0; i < step->source_count; i++)
    drop_reader(w, step->sources[i]);
  proceed(h, w);
}

static void begin_wave(history *h, const wave *of, uint32_t s)
{
  wave *w = add_wave(h);
  assert_int_equal(of->steps[s], UNDER_WAY);
  answer(h, w, s);
  proceed(h, w);
}

// Something happens to a step under way, chosen by chance.
static void advance(history *h)
{
  uint32_t chosen = chance(h->under_way);
  h->events++;
  for (uint32_t n = 0; n < h->wave_count; n++)
    for (uint32_t s = 0; s < h->graph.g.step_count; s++) {
      wave *w = &h->waves[n];
      if (w->steps[s] != UNDER_WAY || chosen-- > 0)
        continue;
      if (h->graph.decoupled[s] && !h->failed && h->wave_count < MAX_WAVES && chance(3) != 0)
        begin_wave(h, w, s);
      else
        end_step(h, w, s);
      return;
    }
}

// A run without failures and silent steps runs each step that is needed, once in a wave.
static void check_complete(const history *h, bool all_answered)
{
  assert_int_equal(h->ends, 1);
  if (h->failed || !all_answered)
    return;
  for (uint32_t s = 0; s < h->graph.g.step_count; s++)
    if (h->plan.needs[s] && h->graph.label[h->graph.steps[s].tensors[0]] == 0)
      assert_int_equal(h->waves[0].steps[s], OVER);
}

static uint64_t run_history(history *h)
{
  make_graph(&h->graph);
  h->wave_count = h->under_way = h->answers = h->ends = h->begun = h->ready_count = 0;
  h->aside = 0;
  h->all_aside += h->put_aside;
  h->now_ns = h->put_aside = 0;
  h->failed = false;
  memset(h->overdue, 0, sizeof(h->overdue));
  const uint32_t max = chance(3);
  for (uint32_t s = 0; s < MAX_STEPS; s++)
    ensemble_places_init(&h->places[s], max);
  slice asked = slice_of(h->graph.names[h->graph.outputs[chance(h->graph.g.output_count)]]);
  ensemble_plan_init(&h->plan, &h->graph.g, &asked, chance(2), h->graph.plan_memory);
  flow_run_init(&h->run);
  wave *first = add_wave(h);
  for (uint32_t t = 0; t < h->graph.g.tensor_count; t++)
    if (h->graph.tensors[t].is_input)
      put(h, first, t);
  if (chance(50) == 0)
    fail_run(h); // cancelled before anything began, or a model is not there
  proceed(h, first);
  for (uint32_t i = 0; h->under_way > 0; i++) {
    assert_true(i < MAX_EVENTS);
    if (chance(60) == 0 && !h->failed)
      fail_run(h); // cancelled
    if (h->under_way > 0)
      advance(h);
    pass_time(h, chance(8) == 0 ? (uint64_t)chance(400) * 1000000000 : chance(1000));
    check_places(h);
  }
  assert_int_equal(h->aside, 0);
  bool all_answered = true;
  for (uint32_t s = 0; s < h->graph.g.step_count; s++)
    if (first->steps[s] == OVER && first->answers[s] == NO_ANSWER)
      all_answered = false; // silent, or decoupled
  check_complete(h, all_answered);
  return h->events;
}

static void every_step_runs_once_and_every_run_ends_once(void **state)
{
  (void)state;
  const char *histories = getenv("NEREID_HISTORIES"), *seed = getenv("NEREID_SEED");
  uint64_t count = histories != NULL ? strtoull(histories, NULL, 10) : HISTORIES, answers = 0;
  history *h = calloc(1, sizeof(*h));
  struct timespec begin, end;
  assert_non_null(h);
  chance_state = seed != NULL ? strtoull(seed, NULL, 10) : 88172645463325252ULL;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (uint64_t i = 0; i < count; i++) {
    run_history(h);
    answers += h->answers;
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  double seconds =
      (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
  print_message("%llu histories, %llu events, %llu answers, %llu waited for a place, %llu for too "
                "long, %.0f histories a minute\n",
                (unsigned long long)count, (unsigned long long)h->events,
                (unsigned long long)answers, (unsigned long long)h->all_aside,
                (unsigned long long)h->all_overdue, 60 * (double)count / seconds);
  assert_true(answers > count / 2 && h->all_aside > count / 100 && h->all_overdue > count / 2000);
  free(h);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_step_runs_once_and_every_run_ends_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
