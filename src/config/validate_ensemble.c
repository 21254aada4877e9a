// SPDX-License-Identifier: Apache-2.0
// The rules of an ensemble by itself: each step is complete, and every tensor comes from an input
// or a step and goes to a step or an output. Called from load threads. Texts are Triton's.
#include "base/cleanup.h"
#include "config/rules.h"

#include <stdlib.h>

#define NO_STEP ((size_t)-1)

typedef Inference__ModelEnsembling__Step ensemble_step;

// A tensor of the ensemble.
typedef struct tensor_node {
  const char *name;
  size_t producer;   // the step that writes it, or NO_STEP
  size_t first_user; // in `uses`, + 1; 0: no step reads it
  bool ready;        // its value can be computed
  bool is_output;    // of the ensemble
  bool seen;
} tensor_node;

// One step that reads a tensor.
typedef struct tensor_use {
  size_t step;
  size_t next; // as first_user
} tensor_use;

typedef struct graph {
  ensemble_step *const *steps;
  tensor_node *nodes;
  size_t node_count;
  tensor_use *uses;
  size_t use_count;
  size_t *waits; // for each step: number of inputs not yet ready
  size_t *queue; // nodes that are ready
  string_map by_name;
} graph;

static void cleanup_graph(graph *g)
{
  free(g->nodes);
  free(g->uses);
  free(g->waits);
  free(g->queue);
  string_map_fini(&g->by_name);
}

static bool graph_init(graph *g, const Inference__ModelEnsembling *ensemble)
{
  size_t entries = 1;
  for (size_t i = 0; i < ensemble->n_step; i++)
    entries += ensemble->step[i]->n_input_map + ensemble->step[i]->n_output_map;
  *g = (graph){.steps = ensemble->step};
  g->nodes = calloc(entries, sizeof(*g->nodes));
  g->uses = calloc(entries, sizeof(*g->uses));
  g->waits = calloc(ensemble->n_step + 1, sizeof(*g->waits));
  g->queue = calloc(entries, sizeof(*g->queue));
  return g->nodes != NULL && g->uses != NULL && g->waits != NULL && g->queue != NULL;
}

static tensor_node *find_node(const graph *g, const char *name)
{
  const size_t index = (size_t)string_map_get(&g->by_name, slice_of(name));
  return index > 0 ? &g->nodes[index - 1] : NULL;
}

// NULL when memory is short.
static tensor_node *node_of(graph *g, const char *name)
{
  tensor_node *node = find_node(g, name);
  if (node != NULL || !string_map_put(&g->by_name, slice_of(name), (void *)(g->node_count + 1)))
    return node;
  node = &g->nodes[g->node_count++];
  node->name = name;
  node->producer = NO_STEP;
  return node;
}

// ---- steps ----

static void check_step(rules *r, const ensemble_step *step, size_t index)
{
  const phrase path = say("ensemble_scheduling.step[%zu]", index);
  const struct {
    const char *field;
    bool given;
  } fields[] = {{"model_name", !is_text(step->model_name, "")},
                {"input_map", step->n_input_map > 0},
                {"output_map", step->n_output_map > 0}};
  for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
    if (!fields[i].given)
      refuse(r, say("%s.%s", path.text, fields[i].field).text, NULL,
             "must specify '%s' in step %zu of ensemble '%s'", fields[i].field, index,
             r->config->name);
  }
}

static bool link_step(rules *r, graph *g, size_t index)
{
  const ensemble_step *step = g->steps[index];
  for (size_t i = 0; i < step->n_output_map; i++) {
    tensor_node *node = node_of(g, step->output_map[i]->value);
    if (node == NULL)
      return false;
    if (node->producer != NO_STEP)
      refuse(
          r,
          say("ensemble_scheduling.step[%zu].output_map[\"%s\"]", index, step->output_map[i]->key)
              .text,
          "give each output a tensor of its own",
          "ensemble tensor '%s' can appear in an output map only once for ensemble '%s' step "
          "%zu",
          node->name, r->config->name, index);
    node->producer = index;
  }
  for (size_t i = 0; i < step->n_input_map; i++) {
    tensor_node *node = node_of(g, step->input_map[i]->value);
    if (node == NULL)
      return false;
    g->uses[g->use_count++] = (tensor_use){index, node->first_user};
    node->first_user = g->use_count;
    g->waits[index]++;
  }
  return true;
}

// ---- the flow of data ----

// Finds the tensors whose values can be computed, beginning with the `count` ready ones in the
// queue.
static void flow(graph *g, size_t count)
{
  for (size_t at = 0; at < count; at++) {
    const tensor_node *node = &g->nodes[g->queue[at]];
    for (size_t use = node->first_user; use > 0; use = g->uses[use - 1].next) {
      const ensemble_step *step = g->steps[g->uses[use - 1].step];
      if (--g->waits[g->uses[use - 1].step] > 0)
        continue;
      for (size_t i = 0; i < step->n_output_map; i++) {
        tensor_node *next = find_node(g, step->output_map[i]->value);
        if (!next->ready)
          g->queue[count++] = (size_t)(next - g->nodes);
        next->ready = true;
      }
    }
  }
}

static size_t check_inputs(rules *r, graph *g)
{
  size_t count = 0;
  for (size_t i = 0; i < r->config->n_input; i++) {
    const char *name = r->config->input[i]->name;
    tensor_node *node = find_node(g, name);
    if (node == NULL) {
      refuse(r, say("input[%zu].name", i).text, "map it to an input of a step, or leave it out",
             "ensemble input '%s' for ensemble %s' is not used", name, r->config->name);
      continue;
    }
    if (!node->ready)
      g->queue[count++] = (size_t)(node - g->nodes);
    node->ready = true;
  }
  return count;
}

// The first tensor on the way back from `node` that is not ready and that no step writes.
static const tensor_node *find_source(const graph *g, const tensor_node *node)
{
  for (const tensor_node *at = node; at != NULL;) {
    const ensemble_step *step = at->producer != NO_STEP ? g->steps[at->producer] : NULL;
    at = NULL;
    for (size_t i = 0; at == NULL && step != NULL && i < step->n_input_map; i++) {
      tensor_node *before = find_node(g, step->input_map[i]->value);
      if (before->ready || before->seen)
        continue;
      before->seen = true;
      at = node = before;
    }
  }
  return node;
}

static void refuse_unwritten(rules *r, const graph *g, const tensor_node *node, const char *path)
{
  for (size_t i = 0; i < g->node_count; i++)
    g->nodes[i].seen = false;
  const tensor_node *source = find_source(g, node);
  if (source == node)
    refuse(r, path, "map an output of a step to it", "output '%s' for ensemble '%s' is not written",
           node->name, r->config->name);
  else
    refuse(r, path, say("map an output of a step to '%s', or make it an input", source->name).text,
           "output '%s' for ensemble '%s' is not written: at least one of its depending tensors, "
           "'%s', is not connected",
           node->name, r->config->name, source->name);
}

static void check_outputs(rules *r, graph *g)
{
  for (size_t i = 0; i < r->config->n_output; i++) {
    const char *name = r->config->output[i]->name;
    const phrase path = say("output[%zu].name", i);
    tensor_node *node = find_node(g, name);
    if (node == NULL)
      refuse(r, path.text, "map an output of a step to it, or leave it out",
             "ensemble output '%s' for ensemble %s' is not used", name, r->config->name);
    else if (!node->ready && !rules_over(r))
      refuse_unwritten(r, g, node, path.text);
    if (node != NULL)
      node->is_output = true;
  }
}

static void check_unused(rules *r, const graph *g)
{
  for (size_t i = 0; i < g->node_count; i++) {
    const tensor_node *node = &g->nodes[i];
    if (!node->is_output && (!node->ready || node->first_user == 0))
      refuse(r, "ensemble_scheduling.step",
             "let a step read it, make it an output, or leave it out",
             "ensemble tensor '%s' is unused in ensemble '%s'", node->name, r->config->name);
  }
}

static void check_steps(rules *r)
{
  const Inference__ModelEnsembling *ensemble = r->config->ensemble_scheduling;
  graph g __attribute__((cleanup(cleanup_graph)));
  bool ok = graph_init(&g, ensemble);
  const size_t errors = r->found->errors;
  for (size_t i = 0; ok && i < ensemble->n_step; i++) {
    check_step(r, ensemble->step[i], i);
    ok = link_step(r, &g, i);
  }
  if (!ok)
    r->found->failed = true;
  if (!ok || r->found->errors > errors)
    return; // later findings would only follow from these
  flow(&g, check_inputs(r, &g));
  check_outputs(r, &g);
  if (r->found->errors == errors)
    check_unused(r, &g);
}

void rules_ensemble(rules *r)
{
  const Inference__ModelConfig *config = r->config;
  if (!is_text(config->platform, PLATFORM_ENSEMBLE))
    refuse(r, "ensemble_scheduling", "set platform: \"ensemble\", without a backend",
           "ensemble scheduling cannot be set for model '%s' whose platform is not ensemble",
           config->name);
  if (config->n_instance_group > 0)
    refuse(r, "instance_group", "leave it out: the models of its steps have instances",
           "instance group should not be specified for ensemble '%s'", config->name);
  if (config->optimization != NULL)
    refuse(r, "optimization", "leave it out: the models of its steps are optimized",
           "optimization should not be specified for ensemble '%s'", config->name);
  if (config->n_model_warmup > 0)
    refuse(r, "model_warmup", "leave it out: the models of its steps are warmed up",
           "model_warmup can not be specified for ensemble '%s'", config->name);
  if (config->ensemble_scheduling->n_step == 0)
    refuse(r, "ensemble_scheduling.step", "give the models that make up the ensemble",
           "must specify 'step' for ensemble '%s'", config->name);
  else
    check_steps(r);
}
