// SPDX-License-Identifier: Apache-2.0
// An ensemble's configuration with names replaced by numbers: made at load, read by all its runs. A
// tensor's source is the step that writes it, or the request.
#ifndef NEREID_CORE_ENSEMBLE_GRAPH_H
#define NEREID_CORE_ENSEMBLE_GRAPH_H

#include "base/arena.h"
#include "base/error.h"
#include "base/slice.h"
#include "config/config.h"
#include "request/signature.h"

#include <stdbool.h>
#include <stdint.h>

#define ENSEMBLE_NONE UINT32_MAX

typedef struct ensemble_link { // between a model's tensor and the ensemble's
  slice name;                  // the model's; NUL-terminated
  uint32_t tensor;
} ensemble_link;

typedef struct ensemble_graph_step {
  const char *model; // with namespacing <namespace>::<name>
  int64_t version;   // -1: the latest
  uint32_t same;     // the first step with this model and version
  bool recurs;       // another step has this model in any version
  ensemble_link *inputs;
  uint32_t input_count;
  ensemble_link *outputs;
  uint32_t output_count;
  slice *output_names; // of the model, for a request's requested outputs
  uint32_t *tensors;   // that it reads, each once
  uint32_t tensor_count;
  uint32_t *sources; // steps that it reads from, each once
  uint32_t source_count;
} ensemble_graph_step;

typedef struct ensemble_tensor {
  const char *name;
  uint32_t source; // step; ENSEMBLE_NONE: it comes with the request
  uint32_t *readers;
  uint32_t reader_count;
  uint32_t output; // of the ensemble: index in the signature; ENSEMBLE_NONE: it is none
  bool is_input;
} ensemble_tensor;

// The work for some of the outputs.
typedef struct ensemble_plan {
  bool *needs;       // of each step: it is needed
  bool *wants;       // of each tensor: it is a wanted output
  uint32_t *misses;  // of each step: how many tensors it waits for
  uint32_t *readers; // of each step's response: itself, steps that are needed, the answer
  uint32_t output_count;
} ensemble_plan;

typedef struct ensemble_graph {
  ensemble_graph_step *steps;
  uint32_t step_count;
  ensemble_tensor *tensors;
  uint32_t tensor_count;
  uint32_t *output_tensors; // of each output of the signature
  uint32_t output_count;
  uint32_t max_inflight; // requests of a step; 0: any number
  ensemble_plan all;     // for all outputs
  arena memory;
} ensemble_graph;

// `config` has an ensemble_scheduling, and `s` was made from it. Names are copied.
error *ensemble_graph_new(const Inference__ModelConfig *config, const model_signature *s,
                          ensemble_graph **g);
void ensemble_graph_free(ensemble_graph *g); // NULL is allowed

// The number of a step's output, or ENSEMBLE_NONE.
uint32_t ensemble_graph_find_output(const ensemble_graph_step *step, slice name);

// Fills the plan for the outputs with these names (`output_count` 0: all) in `memory` of
// ensemble_plan_size bytes.
size_t ensemble_plan_size(const ensemble_graph *g);
void ensemble_plan_init(ensemble_plan *plan, const ensemble_graph *g, const slice *outputs,
                        uint32_t output_count, void *memory);

#endif
