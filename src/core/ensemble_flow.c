// SPDX-License-Identifier: Apache-2.0
// Counts. An event that publishes earlier writes is a release; the thread that is told of it
// acquires them.
#include "core/ensemble_flow.h"

#include <assert.h>

void flow_run_init(flow_run *run)
{
  atomic_init(&run->waves, 0);
  atomic_init(&run->answers, 0);
  atomic_init(&run->failed, false);
}

size_t flow_counts_size(const ensemble_graph *g)
{
  return 2 * (size_t)g->step_count * sizeof(_Atomic uint32_t);
}

void flow_wave_init(flow_wave *w, const ensemble_graph *g, const ensemble_plan *plan, flow_run *run,
                    void *counts)
{
  w->graph = g;
  w->plan = plan;
  w->run = run;
  w->misses = counts;
  w->readers = w->misses + g->step_count;
  atomic_init(&w->open, 1);
  atomic_init(&w->unset, plan->output_count);
  for (uint32_t s = 0; s < g->step_count; s++) {
    atomic_init(&w->misses[s], plan->misses[s]);
    atomic_init(&w->readers[s], plan->readers[s]);
  }
  atomic_fetch_add_explicit(&run->waves, 1, memory_order_relaxed);
}

// True for the last one.
static bool count_down(_Atomic uint32_t *count)
{
  uint32_t before = atomic_fetch_sub_explicit(count, 1, memory_order_acq_rel);
  assert(before > 0);
  return before == 1;
}

void flow_put(flow_wave *w, uint32_t tensor, void (*ready)(void *context, uint32_t step),
              void *context)
{
  const ensemble_tensor *t = &w->graph->tensors[tensor];
  if (w->plan->wants[tensor])
    count_down(&w->unset);
  for (uint32_t i = 0; i < t->reader_count; i++)
    if (w->plan->needs[t->readers[i]] && count_down(&w->misses[t->readers[i]]))
      ready(context, t->readers[i]);
}

bool flow_begin_step(flow_wave *w)
{
  assert(atomic_load_explicit(&w->open, memory_order_relaxed) > 0);
  if (flow_has_failed(w->run))
    return false;
  atomic_fetch_add_explicit(&w->open, 1, memory_order_relaxed);
  return true;
}

// Sequentially consistent, like the store after which a step can be cancelled.
bool flow_has_failed(const flow_run *run)
{
  return atomic_load_explicit(&run->failed, memory_order_seq_cst);
}

bool flow_drop_reader(flow_wave *w, uint32_t source)
{
  return count_down(&w->readers[source]);
}

bool flow_leave_wave(flow_wave *w)
{
  return count_down(&w->open);
}

bool flow_fail(flow_run *run)
{
  return !atomic_exchange_explicit(&run->failed, true, memory_order_seq_cst);
}

// Only an open wave begins others, so a single wave stays single.
flow_answer flow_wave_answer(const flow_wave *w)
{
  flow_run *run = w->run;
  assert(atomic_load_explicit(&w->open, memory_order_relaxed) == 0);
  if (flow_has_failed(run) || atomic_load_explicit(&w->unset, memory_order_acquire) > 0)
    return FLOW_SILENT;
  if (atomic_load_explicit(&run->waves, memory_order_acquire) == 1)
    return FLOW_LAST;
  atomic_fetch_add_explicit(&run->answers, 1, memory_order_relaxed);
  return FLOW_ANSWER;
}

bool flow_end_wave(flow_run *run)
{
  return count_down(&run->waves);
}
