// SPDX-License-Identifier: Apache-2.0
// What a run of an ensemble is made of (docs/internals/ensembles.md), for the files that run it.
#ifndef NEREID_CORE_ENSEMBLE_PARTS_H
#define NEREID_CORE_ENSEMBLE_PARTS_H

#include "core/ensemble_flow.h"
#include "core/ensemble_places.h"
#include "core/follow_up.h"
#include "core/model.h"
#include "core/model_table.h"

#include <pthread.h>

typedef struct ensemble_step ensemble_step;
typedef struct ensemble_run ensemble_run;
typedef struct ensemble_wave ensemble_wave;

// Steps that go on later (core/ensemble_late.h).
typedef struct ensemble_late {
  timekeeper *timekeeper;
  timer timer;
  pthread_mutex_t lock;
  ensemble_step *first; // guarded by lock
} ensemble_late;

// Of one step of the graph (core/ensemble_limit.h).
typedef struct ensemble_limit {
  timekeeper *timekeeper;
  timer timer;          // for those that wait too long
  pthread_mutex_t lock; // guards what follows
  pthread_cond_t left;
  ensemble_places places; // steps that were put aside wait there
} ensemble_limit;

// What an ensemble has besides other models.
typedef struct ensemble {
  ensemble_graph *graph;
  model_entry **entries; // of each step's model; they stay as long as the server
  ensemble_late late;
  ensemble_limit *limits; // of each step; NULL: there are none
} ensemble;

// One step of a wave.
struct ensemble_step {
  ensemble_wave *wave;
  uint32_t index;
  struct ensemble_step *next; // in a list of whoever it belongs to
  request *request;           // owned while it is under way
  response *response;         // a good one; owned, until its last reader is over; NULL: none yet
  uint32_t batch_size;        // of the request; 0: its model does not batch
  struct {
    const char *text; // NULL: the number counts
    uint64_t number;
    uint32_t flags;
  } sequence;             // that its tensors belong to
  refcount awaited;       // the final answer, the release, the submitter; 0: not under way
  _Atomic bool submitted; // its request can be cancelled
  bool is_limited;        // it counts for its limit
  ensemble_place place;   // where it waits for that
  follow_up over;         // what is to be done when it is over, or was put aside and may begin
};

// Where a tensor of a wave is. Neither: it is there without data.
typedef struct ensemble_value {
  const response_output *output; // of a step's response
  const request_input *input;    // of the ensemble's request
} ensemble_value;

struct ensemble_wave {
  flow_wave flow;
  ensemble_run *run;
  struct ensemble_wave *next, *previous; // guarded by run->lock
  ensemble_step *steps;                  // of the graph, each
  ensemble_value *values;                // of the graph's tensors, each
};

struct ensemble_run {
  model *model;       // the ensemble's; borrowed from the request
  ensemble *ensemble; // of that model
  request *request;   // the core's until the end
  const ensemble_graph *graph;
  const ensemble_plan *plan;
  ensemble_plan own_plan; // when not all outputs are asked for
  flow_run flow;
  _Atomic bool has_gpu_tensors;   // some tensor is in memory of a GPU: no loop's thread is to copy
  bool has_waves;                 // it, or the model of a step, is decoupled
  error *failure;                 // of whoever failed first; NULL: it was cancelled
  _Atomic uint64_t compute_ns[3]; // input, inference and output, of all steps
  pthread_mutex_t lock;           // guards what follows, and calls of the client's allocator
  response *answer;               // where it has one wave; NULL: not begun
  ensemble_wave *waves;           // those that exist
  ensemble_wave first;
  model *models[]; // of the steps; referenced where the step is the first with its model
};

static inline model *ensemble_step_model(const ensemble_run *run, uint32_t step)
{
  return run->models[run->graph->steps[step].same];
}

// An error as the ensemble's client gets it.
error *ensemble_error(const ensemble_run *run, error *cause_owned);

#endif
