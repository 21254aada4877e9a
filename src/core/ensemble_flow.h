// SPDX-License-Identifier: Apache-2.0
// The counts of an ensemble's run: which steps are ready, which responses nobody reads any more,
// what ends a wave and the run (docs/internals/ensembles.md). No requests, no locks: any thread may
// call these at any time, and each event is reported to exactly one of them.
#ifndef NEREID_CORE_ENSEMBLE_FLOW_H
#define NEREID_CORE_ENSEMBLE_FLOW_H

#include "core/ensemble_graph.h"

#include <stdatomic.h>

typedef struct flow_run {
  _Atomic uint32_t waves;   // that are not over
  _Atomic uint32_t answers; // that were sent without the end
  _Atomic bool failed;
} flow_run;

typedef struct flow_wave {
  const ensemble_graph *graph;
  const ensemble_plan *plan;
  flow_run *run;
  _Atomic uint32_t open;     // steps under way, and one of who made it
  _Atomic uint32_t unset;    // outputs that are wanted and not there
  _Atomic uint32_t *misses;  // of each step
  _Atomic uint32_t *readers; // of each step's response
} flow_wave;

void flow_run_init(flow_run *run);

// Room for flow_wave_init's counts.
size_t flow_counts_size(const ensemble_graph *g);
// The wave is the run's, and open by one.
void flow_wave_init(flow_wave *w, const ensemble_graph *g, const ensemble_plan *plan, flow_run *run,
                    void *counts);

// The tensor is there. `ready` is told the steps that it was the last for: they are the caller's to
// begin.
void flow_put(flow_wave *w, uint32_t tensor, void (*ready)(void *context, uint32_t step),
              void *context);

// False: the run has failed, the step is not to begin.
bool flow_begin_step(flow_wave *w);
// Asked once the step can be cancelled: true, and it was too late for who cancels what is under
// way.
bool flow_has_failed(const flow_run *run);

// A reader of this step's response is over: a step, the step itself, or the answer. True: it was
// the last, and the response is the caller's to free.
bool flow_drop_reader(flow_wave *w, uint32_t source);

// A step is over, and what it made ready has begun; or the maker of the wave has done his part.
// True: the wave is the caller's to end.
bool flow_leave_wave(flow_wave *w);

// True for the first failure: it is the run's.
bool flow_fail(flow_run *run);

typedef enum flow_answer {
  FLOW_SILENT, // the wave has nothing to say
  FLOW_ANSWER, // it answers, and others may follow: send it, then flow_end_wave
  FLOW_LAST,   // it answers, and with it the run is over
} flow_answer;

// What the wave that the caller ends says.
flow_answer flow_wave_answer(const flow_wave *w);

// The wave that the caller ended, whose answer was sent if it had one. True: the run is the
// caller's to end.
bool flow_end_wave(flow_run *run);

#endif
