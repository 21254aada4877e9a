// SPDX-License-Identifier: Apache-2.0
// Prints a model's configuration as it is served, with the source of each value.
#include "base/cleanup.h"
#include "check/check.h"
#include "check/checked_model.h"
#include "check/model_trial.h"
#include "check/targets.h"
#include "config/text_print.h"
#include "core/gpus.h"

#include <stdlib.h>
#include <string.h>

typedef struct config_print {
  checked_model model;
  string_map defaults; // path → value of the defaults, without the model's file
  bool loads;
  bool failed;
  const char *separator;
  buffer *out;
} config_print;

static void note_default(void *context, const config_line *line)
{
  config_print *p = context;
  if (line->path[0] == '\0')
    return;
  char *value = text_copy(line->value);
  free(string_map_remove(&p->defaults, slice_of(line->path)));
  if (value == NULL || !string_map_put(&p->defaults, slice_of(line->path), value)) {
    free(value);
    p->failed = true;
  }
}

static const char *origin_of(const config_print *p, const config_line *line)
{
  const char *before = string_map_get(&p->defaults, slice_of(line->path));
  bool same = before != NULL && slice_equal_text(line->value, before);
  return p->loads && !same ? "model file" : "default";
}

static void print_line(void *context, const config_line *line)
{
  config_print *p = context;
  buffer *out = p->out;
  buffer_append_format(out, "%s{\"text\":", p->separator);
  buffer_append_json_string(out, line->text);
  p->separator = ",\n";
  if (line->path[0] != '\0') {
    source_place place = source_map_find_exact(&p->model.map, line->path);
    buffer_append_text(out, ",\"field\":");
    buffer_append_json_string(out, slice_of(line->path));
    if (place.line > 0)
      buffer_append_format(out, ",\"from\":\"file\",\"line\":%u,\"column\":%u", place.line,
                           place.column);
    else
      buffer_append_format(out, ",\"from\":\"%s\"", origin_of(p, line));
  }
  buffer_append_char(out, '}');
}

static error *print(config_print *p, const Inference__ModelConfig *served)
{
  buffer *out = p->out;
  buffer_append_text(out, "{\"model\":");
  buffer_append_json_string(out, slice_of(p->model.name));
  buffer_append_text(out, ",\"file\":");
  buffer_append_json_string(out, slice_of(p->model.config_file));
  buffer_append_text(out, ",\"lines\":[");
  p->separator = "";
  if (!config_visit_lines(served, print_line, p))
    return error_no_memory();
  buffer_append_text(out, "],\"config\":");
  RETURN_IF_ERROR(config_print_json(served, out));
  buffer_append_char(out, '}');
  return out->failed ? error_no_memory() : NULL;
}

static error *load(config_print *p, Inference__ModelConfig **served)
{
  char *repository = (char *)p->model.repository;
  const string_list repositories = {.items = &repository, .count = 1};
  model_trial trial = {0};
  error *e = model_trial_begin(&trial, p->model.options, &repositories);
  if (e == NULL)
    e = model_trial_config(&trial, p->model.name, served);
  model_trial_end(&trial);
  return e;
}

// Completes the configuration as a load does before it calls the backend.
static error *complete(checked_model *m)
{
  if (m->report->errors > 0 || m->config == NULL) // it could not be opened or has mistakes
    return error_new(ERROR_INVALID_ARG,
                     "failed to read the configuration of model '%s': "
                     "'nereid check' says why",
                     m->name);
  RETURN_IF_ERROR(diagnostics_first_error(&m->found, m->config_file));
  RETURN_IF_ERROR(config_set_defaults(m->config, m->name, &m->dir.root));
  return checked_model_complete_groups(m);
}

static error *print_target(config_print *p, const check_target *target, bool loads)
{
  AUTO_CONFIG Inference__ModelConfig *served = NULL;
  checked_model *m = &p->model;
  p->loads = loads && target->config_file == NULL;
  RETURN_IF_ERROR(checked_model_open(m, target->config_name, target->config_file));
  RETURN_IF_ERROR(complete(m));
  if (!config_visit_lines(m->config, note_default, p) || p->failed)
    return error_no_memory();
  if (p->loads)
    RETURN_IF_ERROR(load(p, &served));
  return print(p, p->loads ? served : m->config);
}

static void fini(config_print *p)
{
  size_t position = 0;
  string_map_entry *entry;
  while ((entry = string_map_walk(&p->defaults, &position)) != NULL)
    free(entry->value);
  string_map_fini(&p->defaults);
  checked_model_fini(&p->model);
}

// Finds the model by name in the repositories or, without any, by path.
static error *find_target(const server_options *options, const char *name, check_targets *targets,
                          repository_model *found, check_target *target)
{
  *targets = (check_targets){0};
  *found = (repository_model){0};
  AUTO_REPOSITORY_SET repository_set set;
  RETURN_IF_ERROR(repository_set_init(&set, &options->model_repositories, &file_policy_anywhere,
                                      options->model_namespacing));
  if (options->model_repositories.count > 0) {
    RETURN_IF_ERROR(repository_find_one(&set, name, found));
    *target = (check_target){found->repository, found->folder, options->model_config_name, NULL};
    return NULL;
  }
  RETURN_IF_ERROR(check_targets_init(targets, options, &name, 1));
  if (targets->count == 0)
    return error_new(ERROR_INVALID_ARG, "'%s' is a repository, expected a model of it", name);
  *target = targets->items[0];
  return NULL;
}

error *check_report_config(const server_options *options, const char *name, bool loads,
                           buffer *report)
{
  check_targets targets;
  repository_model found;
  check_target target = {0};
  check_report problems = {0};
  config_print p = {.out = report};
  gpus *g = NULL;
  error *e = find_target(options, name, &targets, &found, &target);
  if (e == NULL)
    e = gpus_new(options, &g);
  p.model = (checked_model){.report = &problems,
                            .options = options,
                            .gpus = g,
                            .links = &file_policy_anywhere,
                            .repository = target.repository,
                            .name = target.name,
                            .whole = target.config_file == NULL};
  if (e == NULL)
    e = print_target(&p, &target, loads);
  fini(&p);
  gpus_free(g);
  check_report_fini(&problems);
  check_targets_fini(&targets);
  repository_model_fini(&found);
  return e;
}
