// SPDX-License-Identifier: Apache-2.0
// The parts of an ensemble besides other models, and the beginning of its requests.
#include "core/ensemble.h"

#include "core/ensemble_late.h"
#include "core/ensemble_limit.h"
#include "core/ensemble_run.h"
#include "core/ensemble_step.h"
#include "core/server_state.h"
#include "core/server_status.h"

#include <stdlib.h>

// ---- a request ----

// A run looks each model up once, so that all its steps use the same version.
static error *find_models(ensemble_run *run)
{
  server *s = run->model->environment.server;
  for (uint32_t i = 0; i < run->graph->step_count; i++) {
    const ensemble_graph_step *step = &run->graph->steps[i];
    if (!run->plan->needs[i])
      continue;
    model **m = &run->models[step->same];
    if (*m == NULL) {
      RETURN_IF_ERROR(server_find_version(run->ensemble->entries[i], step->version, m));
      if (s->demand != NULL)
        model_touch_with(*m, run->model);
    }
    run->has_waves = run->has_waves || (*m)->target.signature.decoupled;
  }
  return NULL;
}

static void put_inputs(ensemble_run *run, ensemble_steps *ready)
{
  for (uint32_t t = 0; t < run->graph->tensor_count; t++)
    if (run->graph->tensors[t].is_input)
      ensemble_put_input(run, t, request_find_input(run->request, run->graph->tensors[t].name),
                         ready);
}

static error *begin(model *m, request *r)
{
  ensemble_steps ready = {NULL, NULL};
  ensemble_run *run = ensemble_run_new(m->ensemble, m, r);
  if (run == NULL)
    return error_no_memory();
  request_set_state(r, REQUEST_EXECUTING);
  if (atomic_load_explicit(&r->factory->cancelled, memory_order_seq_cst))
    ensemble_cancel(r); // a cancellation before this found no run
  error *e = find_models(run);
  if (e != NULL)
    ensemble_fail(run, e);
  else
    put_inputs(run, &ready);
  ensemble_proceed(&run->first, &ready, r->may_run_inline);
  return NULL;
}

// ---- a model ----

// ensemble_check has looked at the models' configurations: the entries are known.
static error *find_entries(ensemble *e, model_table *models)
{
  e->entries = calloc(e->graph->step_count + 1, sizeof(*e->entries));
  if (e->entries == NULL)
    return error_no_memory();
  for (uint32_t i = 0; i < e->graph->step_count; i++) {
    const char *name = e->graph->steps[i].model;
    e->entries[i] = model_table_find(models, name);
    if (e->entries[i] == NULL)
      return model_unknown(ERROR_NOT_FOUND, "'%s' is not found", name);
  }
  return NULL;
}

static error *make(model *m)
{
  ensemble *e = calloc(1, sizeof(*e));
  if (e == NULL)
    return error_no_memory();
  ensemble_late_init(&e->late, m->environment.timekeeper);
  m->ensemble = e;
  RETURN_IF_ERROR(ensemble_graph_new(m->config, &m->target.signature, &e->graph));
  RETURN_IF_ERROR(find_entries(e, &m->environment.server->models));
  return ensemble_limits_init(e, e->graph->max_inflight);
}

static void free_ensemble(model *m)
{
  ensemble *e = m->ensemble;
  if (e == NULL)
    return;
  ensemble_limits_fini(e);
  ensemble_late_fini(&e->late);
  ensemble_graph_free(e->graph);
  free(e->entries);
  free(e);
}

const model_runner ensemble_runner = {
    .make = make,
    .free = free_ensemble,
    .begin = begin,
    .cancel = ensemble_cancel,
};
