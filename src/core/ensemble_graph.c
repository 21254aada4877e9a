// SPDX-License-Identifier: Apache-2.0
// Graphs of ensembles: made on load threads, read on any.
#include "core/ensemble_graph.h"

#include "base/buffer.h"
#include "base/string_map.h"

#include <stdlib.h>
#include <string.h>

typedef Inference__ModelEnsembling__Step config_step;

// ---- tensors by name ----

typedef struct builder {
  ensemble_graph *g;
  string_map names;  // index + 1
  uint32_t capacity; // of g->tensors
} builder;

static char *copy_text(ensemble_graph *g, const char *text)
{
  return arena_copy_text(&g->memory, slice_of(text));
}

// Adds the tensor if it is new. UNAVAILABLE.
static error *find_tensor(builder *b, const char *name, uint32_t *index)
{
  ensemble_graph *g = b->g;
  uintptr_t found = (uintptr_t)string_map_get(&b->names, slice_of(name));
  if (found == 0) {
    const char *copy = copy_text(g, name);
    found = g->tensor_count + 1;
    if (copy == NULL || !string_map_put(&b->names, slice_of(name), (void *)found))
      return error_no_memory();
    g->tensors[g->tensor_count++] =
        (ensemble_tensor){.name = copy, .source = ENSEMBLE_NONE, .output = ENSEMBLE_NONE};
  }
  *index = (uint32_t)(found - 1);
  return NULL;
}

static bool contains(const uint32_t *items, uint32_t count, uint32_t wanted)
{
  for (uint32_t i = 0; i < count; i++)
    if (items[i] == wanted)
      return true;
  return false;
}

static void add_once(uint32_t *items, uint32_t *count, uint32_t item)
{
  if (!contains(items, *count, item))
    items[(*count)++] = item;
}

// ---- steps ----

// NULL: memory is short.
static const char *copy_name(ensemble_graph *g, const config_step *from)
{
  AUTO_BUFFER buffer name = BUFFER_EMPTY;
  if (from->model_namespace[0] != '\0')
    buffer_append_format(&name, "%s::", from->model_namespace);
  buffer_append_text(&name, from->model_name);
  return name.failed ? NULL : arena_copy_text(&g->memory, buffer_view(&name));
}

static error *allocate_step(ensemble_graph *g, ensemble_graph_step *step, const config_step *from)
{
  arena *a = &g->memory;
  step->model = copy_name(g, from);
  step->version = from->model_version;
  step->inputs = arena_allocate_array(a, from->n_input_map, sizeof(*step->inputs));
  step->outputs = arena_allocate_array(a, from->n_output_map, sizeof(*step->outputs));
  step->output_names = arena_allocate_array(a, from->n_output_map, sizeof(*step->output_names));
  step->tensors = arena_allocate_array(a, from->n_input_map, sizeof(*step->tensors));
  step->sources = arena_allocate_array(a, from->n_input_map, sizeof(*step->sources));
  return step->model == NULL || step->inputs == NULL || step->outputs == NULL ||
                 step->output_names == NULL || step->tensors == NULL || step->sources == NULL
             ? error_no_memory()
             : NULL;
}

static error *link_tensor(builder *b, const char *key, const char *value, ensemble_link *link)
{
  const char *copy = copy_text(b->g, key);
  if (copy == NULL)
    return error_no_memory();
  link->name = slice_of(copy);
  return find_tensor(b, value, &link->tensor);
}

static bool is_same_model(const ensemble_graph_step *a, const ensemble_graph_step *b)
{
  return strcmp(a->model, b->model) == 0 && a->version == b->version;
}

static error *add_step(builder *b, const config_step *from)
{
  ensemble_graph *g = b->g;
  uint32_t index = g->step_count;
  ensemble_graph_step *step = &g->steps[index];
  RETURN_IF_ERROR(allocate_step(g, step, from));
  for (size_t i = 0; i < from->n_input_map; i++) {
    ensemble_link *link = &step->inputs[step->input_count++];
    RETURN_IF_ERROR(link_tensor(b, from->input_map[i]->key, from->input_map[i]->value, link));
    add_once(step->tensors, &step->tensor_count, link->tensor);
  }
  for (size_t i = 0; i < from->n_output_map; i++) {
    ensemble_link *link = &step->outputs[step->output_count];
    RETURN_IF_ERROR(link_tensor(b, from->output_map[i]->key, from->output_map[i]->value, link));
    step->output_names[step->output_count++] = link->name;
    g->tensors[link->tensor].source = index;
  }
  while (step->same < index && !is_same_model(&g->steps[step->same], step))
    step->same++;
  for (uint32_t other = 0; other < index; other++)
    if (strcmp(g->steps[other].model, step->model) == 0)
      g->steps[other].recurs = step->recurs = true;
  g->step_count++;
  return NULL;
}

// Called once all tensors have their sources.
static error *link_steps(ensemble_graph *g)
{
  for (uint32_t s = 0; s < g->step_count; s++)
    for (uint32_t i = 0; i < g->steps[s].tensor_count; i++)
      g->tensors[g->steps[s].tensors[i]].reader_count++;
  for (uint32_t t = 0; t < g->tensor_count; t++) {
    ensemble_tensor *tensor = &g->tensors[t];
    tensor->readers =
        arena_allocate_array(&g->memory, tensor->reader_count, sizeof(*tensor->readers));
    if (tensor->readers == NULL)
      return error_no_memory();
    tensor->reader_count = 0;
  }
  for (uint32_t s = 0; s < g->step_count; s++) {
    ensemble_graph_step *step = &g->steps[s];
    for (uint32_t i = 0; i < step->tensor_count; i++) {
      ensemble_tensor *t = &g->tensors[step->tensors[i]];
      t->readers[t->reader_count++] = s;
      if (t->source != ENSEMBLE_NONE)
        add_once(step->sources, &step->source_count, t->source);
    }
  }
  return NULL;
}

// ---- the whole ----

static error *allocate_graph(builder *b, const Inference__ModelConfig *config)
{
  ensemble_graph *g = b->g;
  const Inference__ModelEnsembling *ensemble = config->ensemble_scheduling;
  size_t tensors = config->n_input + config->n_output;
  for (size_t i = 0; i < ensemble->n_step; i++)
    tensors += ensemble->step[i]->n_input_map + ensemble->step[i]->n_output_map;
  g->tensors = arena_allocate_array(&g->memory, tensors, sizeof(*g->tensors));
  g->steps = arena_allocate_array(&g->memory, ensemble->n_step, sizeof(*g->steps));
  g->output_tensors =
      arena_allocate_array(&g->memory, config->n_output, sizeof(*g->output_tensors));
  g->max_inflight = ensemble->max_inflight_requests;
  return g->tensors == NULL || g->steps == NULL || g->output_tensors == NULL ? error_no_memory()
                                                                             : NULL;
}

static error *build(builder *b, const Inference__ModelConfig *config, const model_signature *s)
{
  ensemble_graph *g = b->g;
  uint32_t t;
  RETURN_IF_ERROR(allocate_graph(b, config));
  for (size_t i = 0; i < s->input_count; i++) {
    RETURN_IF_ERROR(find_tensor(b, s->inputs[i].name.data, &t));
    g->tensors[t].is_input = true;
  }
  for (; g->output_count < s->output_count; g->output_count++) {
    RETURN_IF_ERROR(find_tensor(b, s->outputs[g->output_count].name.data, &t));
    g->tensors[t].output = g->output_count;
    g->output_tensors[g->output_count] = t;
  }
  for (size_t i = 0; i < config->ensemble_scheduling->n_step; i++)
    RETURN_IF_ERROR(add_step(b, config->ensemble_scheduling->step[i]));
  RETURN_IF_ERROR(link_steps(g));
  void *plan = arena_allocate(&g->memory, ensemble_plan_size(g));
  if (plan == NULL)
    return error_no_memory();
  ensemble_plan_init(&g->all, g, NULL, 0, plan);
  return NULL;
}

error *ensemble_graph_new(const Inference__ModelConfig *config, const model_signature *s,
                          ensemble_graph **result)
{
  builder b = {.g = calloc(1, sizeof(ensemble_graph))};
  if (b.g == NULL)
    return error_no_memory();
  arena_init(&b.g->memory, NULL, 0);
  error *e = build(&b, config, s);
  string_map_fini(&b.names);
  if (e != NULL) {
    ensemble_graph_free(b.g);
    b.g = NULL;
  }
  *result = b.g;
  return e;
}

void ensemble_graph_free(ensemble_graph *g)
{
  if (g != NULL)
    arena_fini(&g->memory);
  free(g);
}

uint32_t ensemble_graph_find_output(const ensemble_graph_step *step, slice name)
{
  for (uint32_t i = 0; i < step->output_count; i++)
    if (slice_equal(step->outputs[i].name, name))
      return i;
  return ENSEMBLE_NONE;
}

// ---- plans ----

static bool is_asked_for(const ensemble_graph *g, const ensemble_tensor *t, const slice *outputs,
                         uint32_t count)
{
  if (t->output == ENSEMBLE_NONE)
    return false;
  for (uint32_t i = 0; i < count; i++)
    if (slice_equal(outputs[i], slice_of(g->tensors[g->output_tensors[t->output]].name)))
      return true;
  return count == 0;
}

// A step is needed when one of its outputs is wanted, or is read by a needed step.
static bool is_needed(const ensemble_graph *g, const ensemble_plan *plan, uint32_t step)
{
  for (uint32_t i = 0; i < g->steps[step].output_count; i++) {
    uint32_t tensor = g->steps[step].outputs[i].tensor;
    const ensemble_tensor *t = &g->tensors[tensor];
    bool needed = plan->wants[tensor];
    for (uint32_t r = 0; r < t->reader_count && !needed; r++)
      needed = plan->needs[t->readers[r]];
    if (needed)
      return true;
  }
  return false;
}

static void find_needed(const ensemble_graph *g, ensemble_plan *plan)
{
  bool changed = true;
  while (changed) {
    changed = false;
    for (uint32_t s = g->step_count; s-- > 0;)
      if (!plan->needs[s] && is_needed(g, plan, s))
        changed = plan->needs[s] = true;
  }
}

static void count_readers(const ensemble_graph *g, ensemble_plan *plan, uint32_t s)
{
  const ensemble_graph_step *step = &g->steps[s];
  bool answers = false;
  plan->misses[s] = step->tensor_count;
  for (uint32_t i = 0; i < step->source_count; i++)
    plan->readers[step->sources[i]]++;
  for (uint32_t i = 0; i < step->output_count; i++)
    answers = answers || plan->wants[step->outputs[i].tensor];
  plan->readers[s] += 1 + answers;
}

size_t ensemble_plan_size(const ensemble_graph *g)
{
  return 2 * g->step_count * sizeof(uint32_t) + (g->step_count + g->tensor_count) * sizeof(bool);
}

void ensemble_plan_init(ensemble_plan *plan, const ensemble_graph *g, const slice *outputs,
                        uint32_t output_count, void *memory)
{
  memset(memory, 0, ensemble_plan_size(g));
  *plan = (ensemble_plan){.misses = memory};
  plan->readers = plan->misses + g->step_count;
  plan->needs = (bool *)(plan->readers + g->step_count);
  plan->wants = plan->needs + g->step_count;
  for (uint32_t t = 0; t < g->tensor_count; t++) {
    plan->wants[t] = is_asked_for(g, &g->tensors[t], outputs, output_count);
    plan->output_count += plan->wants[t];
  }
  find_needed(g, plan);
  for (uint32_t s = 0; s < g->step_count; s++)
    if (plan->needs[s])
      count_readers(g, plan, s);
}
