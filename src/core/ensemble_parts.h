// SPDX-License-Identifier: Apache-2.0
// The parts of an ensemble's run (docs/internals/ensembles.md), for the files that run it.
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

// Steps that continue later (core/ensemble_late.h).
typedef struct ensemble_late {
  timekeeper *timekeeper;
  timer timer;
  pthread_mutex_t lock;
  ensemble_step *first; // guarded by lock
} ensemble_late;

// The limit of one step of the graph (core/ensemble_limit.h).
typedef struct ensemble_limit {
  timekeeper *timekeeper;
  timer timer;          // for steps that wait too long
  pthread_mutex_t lock; // guards what follows
  pthread_cond_t left;
  ensemble_places places; // steps that were put aside wait here
} ensemble_limit;

// The parts of an ensemble besides other models.
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
  struct ensemble_step *next; // in its owner's list
  request *request;           // owned while it is under way
  response *response;         // without a failure; owned until its last reader is over; NULL: none
  uint32_t batch_size;        // of the request; 0: its model does not batch
  struct {
    const char *text; // NULL: the number counts
    uint64_t number;
    uint32_t flags;
  } sequence;             // of its tensors
  refcount awaited;       // final answer, release, submitter; 0: not under way
  _Atomic bool submitted; // its request can be cancelled
  bool is_limited;        // it counts against its limit
  ensemble_place place;   // while it waits for the limit
  follow_up over;         // runs when it is over, or was put aside and may begin
};

// Where a tensor of a wave is. Both NULL: it is there without data.
typedef struct ensemble_value {
  const response_output *output; // of a step's response
  const request_input *input;    // of the ensemble's request
} ensemble_value;

struct ensemble_wave {
  flow_wave flow;
  ensemble_run *run;
  struct ensemble_wave *next, *previous; // guarded by run->lock
  ensemble_step *steps;                  // one for each of the graph
  ensemble_value *values;                // one for each tensor of the graph
};

struct ensemble_run {
  model *model;       // the ensemble's; borrowed from the request
  ensemble *ensemble; // of that model
  request *request;   // the core's until the end
  const ensemble_graph *graph;
  const ensemble_plan *plan;
  ensemble_plan own_plan; // when not all outputs are wanted
  flow_run flow;
  _Atomic bool has_gpu_tensors;   // a tensor is in memory of a GPU: no loop's thread may copy it
  bool has_waves;                 // the ensemble, or the model of a step, is decoupled
  error *failure;                 // the first one; NULL: the run was cancelled
  _Atomic uint64_t compute_ns[3]; // input, inference and output, of all steps
  pthread_mutex_t lock;           // guards what follows, and calls of the client's allocator
  response *answer;               // of a run with one wave; NULL: not begun
  ensemble_wave *waves;           // all that exist
  ensemble_wave first;
  model *models[]; // of the steps; referenced by the first step with the model
};

static inline model *ensemble_step_model(const ensemble_run *run, uint32_t step)
{
  return run->models[run->graph->steps[step].same];
}

// An error as the ensemble's client gets it.
error *ensemble_error(const ensemble_run *run, error *cause_owned);

#endif
