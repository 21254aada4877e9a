// SPDX-License-Identifier: Apache-2.0
// Checks an ensemble beside the models of its steps, as their directories have them: finds errors
// of a load as far as the configurations show them. A step whose tensors its backend completes is
// not checked.
#include "base/cleanup.h"
#include "check/checked_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A step's model.
typedef struct step_model {
  repository_dir dir;
  Inference__ModelConfig *config; // with defaults; NULL: unreadable, as its own check reports
} step_model;

static void cleanup_step_model(step_model *step)
{
  repository_dir_fini(&step->dir);
  config_free(step->config);
}
#define AUTO_STEP __attribute__((cleanup(cleanup_step_model)))

// Opens the step's model in the ensemble's own repository, or in another. *found: there is a
// directory.
static error *open_step(const checked_model *m, const string_list *others, const char *name,
                        step_model *step, bool *found)
{
  *step = (step_model){0};
  *found = false;
  for (size_t i = 0; i <= others->count && !*found; i++) {
    const char *repository = i == 0 ? m->repository : others->items[i - 1];
    repository_dir_fini(&step->dir);
    error *e = repository_open(repository, name, m->links, &step->dir);
    if (e != NULL && error_get_code(e) == ERROR_UNAVAILABLE)
      return e;
    *found = e == NULL;
    error_free(e);
  }
  if (!*found)
    return NULL;
  AUTO_SOURCE_MAP source_map places = SOURCE_MAP_EMPTY;
  error *e = repository_read_config(&step->dir, m->options->model_config_name, true, &places,
                                    &step->config);
  if (e == NULL)
    e = config_set_defaults(step->config, name, &step->dir.root);
  if (e == NULL || error_get_code(e) == ERROR_UNAVAILABLE)
    return e;
  error_free(e);
  config_free(step->config);
  step->config = NULL;
  return NULL;
}

static bool serves(const step_model *step, int64_t version)
{
  size_t count = 0;
  const size_t all = step->dir.version_count;
  int64_t *available AUTO_FREE = calloc(all + 1, sizeof(*available));
  int64_t *selected AUTO_FREE = calloc(all + 1, sizeof(*selected));
  if (available == NULL || selected == NULL)
    return true;
  for (size_t i = 0; i < all; i++)
    available[i] = step->dir.versions[i].version;
  config_select_versions(step->config, available, all, selected, &count);
  for (size_t i = 0; i < count; i++)
    if (selected[i] == version)
      return true;
  return false;
}

// Sets *last if the steps of `config` lead back to the model of `m`: the ensemble before it. `seen`
// has the names of visited ensembles.
static error *find_circle(const checked_model *m, const string_list *others,
                          const Inference__ModelConfig *config, string_list *seen, char **last)
{
  for (size_t i = 0; *last == NULL && i < config->ensemble_scheduling->n_step; i++) {
    bool found;
    const char *name = config->ensemble_scheduling->step[i]->model_name;
    AUTO_STEP step_model step = {0};
    if (strcmp(name, m->config->name) == 0) {
      *last = strdup(config->name);
      return *last != NULL ? NULL : error_no_memory();
    }
    if (string_list_contains(seen, name) || !string_list_add(seen, name))
      continue;
    RETURN_IF_ERROR(open_step(m, others, name, &step, &found));
    if (step.config != NULL && config_is_ensemble(step.config))
      RETURN_IF_ERROR(find_circle(m, others, step.config, seen, last));
  }
  return NULL;
}

static error *check_circle(checked_model *m, const string_list *others)
{
  string_list seen = {0};
  char *last AUTO_FREE = NULL;
  error *e = find_circle(m, others, m->config, &seen, &last);
  string_list_fini(&seen);
  if (e == NULL && last != NULL)
    checked_model_add(m, DIAGNOSTIC_ERROR, m->config_file, "ensemble_scheduling.step", NULL,
                      "circular dependency between ensembles: %s -> ... -> %s -> %s",
                      m->config->name, last, m->config->name);
  return e;
}

// If one model alone is checked, a server may have further repositories.
static void add_absent(checked_model *m, const string_list *others, const char *path,
                       const char *name)
{
  const bool whole = string_list_contains(others, m->repository);
  checked_model_add(m, whole ? DIAGNOSTIC_ERROR : DIAGNOSTIC_WARNING, m->config_file, path,
                    "name a model of the repository",
                    "ensemble %s contains models that are not available or ambiguous: %s",
                    m->config->name, name);
}

static error *look_at_step(checked_model *m, const string_list *others, size_t index,
                           config_step_model *at)
{
  bool found;
  char path[64];
  step_model model = {0};
  const Inference__ModelEnsembling__Step *step = m->config->ensemble_scheduling->step[index];
  error *e = open_step(m, others, step->model_name, &model, &found);
  snprintf(path, sizeof(path), "ensemble_scheduling.step[%zu].model_name", index);
  if (e == NULL && !found)
    add_absent(m, others, path, step->model_name);
  snprintf(path, sizeof(path), "ensemble_scheduling.step[%zu].model_version", index);
  if (e == NULL && model.config != NULL && step->model_version != -1 &&
      !serves(&model, step->model_version))
    checked_model_add(m, DIAGNOSTIC_ERROR, m->config_file, path, "-1 is the latest one",
                      "ensemble '%s' depends on '%s' whose required version %" PRId64
                      " is not loaded.",
                      m->config->name, step->model_name, step->model_version);
  if (e == NULL && model.config != NULL && model.config->n_input > 0 &&
      model.config->n_output > 0) {
    *at = (config_step_model){step->model_name, model.config};
    model.config = NULL; // now the caller's
  }
  cleanup_step_model(&model);
  return e;
}

error *checked_model_look_at_steps(checked_model *m, const string_list *repositories)
{
  error *e = NULL;
  if (!m->whole || m->config == NULL || !config_is_ensemble(m->config))
    return NULL;
  const Inference__ModelEnsembling *ensemble = m->config->ensemble_scheduling;
  config_step_model *steps AUTO_FREE = calloc(ensemble->n_step + 1, sizeof(*steps));
  if (steps == NULL)
    return error_no_memory();
  const size_t before = m->found.errors;
  for (size_t i = 0; e == NULL && i < ensemble->n_step; i++)
    if (ensemble->step[i]->model_name[0] != '\0')
      e = look_at_step(m, repositories, i, &steps[i]);
  if (e == NULL)
    e = check_circle(m, repositories);
  if (e == NULL && before == 0) // only for a graph that is valid by itself
    config_diagnose_steps(m->config, m->config->name, steps, &m->map, &m->found);
  for (size_t i = 0; i < ensemble->n_step; i++)
    config_free((Inference__ModelConfig *)steps[i].config);
  return e;
}
