// SPDX-License-Identifier: Apache-2.0
// The counts of an ensemble's run: which steps are ready, which responses nobody reads any more,
// what ends a wave and the run (docs/internals/ensembles.md). No requests, no locks: any thread may
// call these functions at any time, and each event is reported to exactly one caller.
#ifndef NEREID_CORE_ENSEMBLE_FLOW_H
#define NEREID_CORE_ENSEMBLE_FLOW_H

#include "core/ensemble_graph.h"

#include <stdatomic.h>

typedef struct flow_run {
  _Atomic uint32_t waves;   // not over yet
  _Atomic uint32_t answers; // sent without the final flag
  _Atomic bool failed;
} flow_run;

typedef struct flow_wave {
  const ensemble_graph *graph;
  const ensemble_plan *plan;
  flow_run *run;
  _Atomic uint32_t open;     // steps under way, plus one for the maker of the wave
  _Atomic uint32_t unset;    // wanted outputs that are not there
  _Atomic uint32_t *misses;  // of each step: tensors that are not there
  _Atomic uint32_t *readers; // of each step's response
} flow_wave;

void flow_run_init(flow_run *run);

// Bytes of flow_wave_init's `counts`.
size_t flow_counts_size(const ensemble_graph *g);
// Adds the wave to the run; it is open by one, for the caller.
void flow_wave_init(flow_wave *w, const ensemble_graph *g, const ensemble_plan *plan, flow_run *run,
                    void *counts);

// The tensor is there. Calls `ready` for each step that lacked nothing else; the caller begins
// these steps.
void flow_put(flow_wave *w, uint32_t tensor, void (*ready)(void *context, uint32_t step),
              void *context);

// Opens the wave by one for a step. False: the run has failed, and the step must not begin.
bool flow_begin_step(flow_wave *w);
// Called once the step can be cancelled. True: the failure may have missed the step, and the caller
// cancels it.
bool flow_has_failed(const flow_run *run);

// A reader of this step's response is over: another step, the step itself, or the answer. True: it
// was the last, and the caller frees the response.
bool flow_drop_reader(flow_wave *w, uint32_t source);

// A step is over and the steps that it made ready have begun, or the maker of the wave is done.
// True: the caller ends the wave.
bool flow_leave_wave(flow_wave *w);

// True for the first failure: it is the run's.
bool flow_fail(flow_run *run);

typedef enum flow_answer {
  FLOW_SILENT, // the wave does not answer
  FLOW_ANSWER, // it answers, and others may follow: send the answer, then flow_end_wave
  FLOW_LAST,   // it answers, and the run is over with it
} flow_answer;

// Whether the wave answers; for the caller that ends it.
flow_answer flow_wave_answer(const flow_wave *w);

// The caller has ended a wave, and sent its answer if there was one. True: the caller ends the run.
bool flow_end_wave(flow_run *run);

#endif
