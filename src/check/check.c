// SPDX-License-Identifier: Apache-2.0
// Checks model after model; see check.h.
#include "check/check.h"

#include "base/cleanup.h"
#include "check/checked_model.h"
#include "check/model_trial.h"
#include "check/targets.h"
#include "core/gpus.h"

#include <stdlib.h>
#include <string.h>

typedef struct check {
  const server_options *options;
  file_policy links;
  check_report report;
  check_targets targets;
  gpus *gpus;
  model_trial trial; // if models are loaded too
} check;

static error *init_links(check *c)
{
  const server_options *o = c->options;
  if (!o->keeps_links)
    return NULL;
  c->links.links = FILE_LINKS_KEPT;
  const string_list *const roots[] = {&o->link_dirs, &o->model_repositories,
                                      &c->targets.repositories};
  for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++)
    for (size_t k = 0; k < roots[i]->count; k++)
      RETURN_IF_ERROR(file_policy_add_root(&c->links, roots[i]->items[k]));
  return NULL;
}

// ---- one model ----

static error *check_opened(check *c, checked_model *m, const check_target *target)
{
  size_t before = c->report.errors;
  RETURN_IF_ERROR(checked_model_open(m, target->config_name, target->config_file));
  RETURN_IF_ERROR(checked_model_diagnose(m));
  RETURN_IF_ERROR(checked_model_look(m));
  RETURN_IF_ERROR(checked_model_look_at_steps(m, &c->targets.repositories));
  checked_model_report(m);
  if (!m->loads || !m->whole)
    return NULL;
  AUTO_ERROR error *e = model_trial_load(&c->trial, target->name);
  if (e != NULL && c->report.errors == before) // else the report has the reason
    checked_model_add(m, DIAGNOSTIC_ERROR, "", NULL, NULL, "%s", error_message(e));
  return NULL;
}

static error *check_one(check *c, const check_target *target)
{
  checked_model m = {.report = &c->report,
                     .options = c->options,
                     .links = &c->links,
                     .gpus = c->gpus,
                     .repository = target->repository,
                     .name = target->name,
                     .whole = target->config_file == NULL,
                     .loads = c->trial.server != NULL};
  c->report.models++;
  error *e = check_opened(c, &m, target);
  checked_model_fini(&m);
  return e;
}

// ---- repositories ----

static void add_duplicate(check *c, const repository_model *found)
{
  AUTO_BUFFER buffer path = BUFFER_EMPTY;
  AUTO_BUFFER buffer message = BUFFER_EMPTY;
  buffer_append_format(&path, "%s/%s", found->repository, found->folder);
  buffer_append_char(&path, '\0');
  buffer_append_format(&message,
                       "failed to poll model '%s': not unique across all model repositories\n"
                       "it is in",
                       found->name);
  const char *separator = " ";
  const string_list *paths = &c->targets.repositories;
  for (size_t i = 0; i < paths->count; i++) {
    AUTO_ROOT file_root root = FILE_ROOT_CLOSED;
    AUTO_ERROR error *e = files_open_root(paths->items[i], &c->links, &root);
    if (e != NULL || !files_exists(&root, found->folder))
      continue;
    buffer_append_format(&message, "%s%s", separator, paths->items[i]);
    separator = ", ";
  }
  buffer_append_char(&message, '\0');
  c->report.problems.failed = c->report.problems.failed || path.failed || message.failed;
  check_report_add(
      &c->report,
      &(check_finding){.severity = DIAGNOSTIC_ERROR,
                       .model = found->name,
                       .file = path.failed ? "" : path.data,
                       .message = message.failed ? "" : message.data,
                       .fix = "give it another name in one of them: neither is served"});
}

static error *check_found(check *c, repository_set *set, const repository_model *found)
{
  bool is_model;
  RETURN_IF_ERROR(repository_is_model(set, found, &is_model));
  if (!is_model)
    return NULL;
  if (found->duplicate)
    add_duplicate(c, found);
  check_target target = {found->repository, found->folder, c->options->model_config_name, NULL};
  return check_one(c, &target);
}

static error *check_listing(check *c, repository_set *set, const repository_listing *listing)
{
  const string_list *paths = &c->targets.repositories;
  size_t before = c->report.models;
  for (size_t i = 0; i < listing->count; i++)
    RETURN_IF_ERROR(check_found(c, set, &listing->items[i]));
  for (size_t i = 0; c->report.models == before && i < paths->count; i++)
    check_report_add(&c->report,
                     &(check_finding){.severity = DIAGNOSTIC_WARNING,
                                      .model = "",
                                      .file = paths->items[i],
                                      .message = "no directory of the repository is a model",
                                      .fix = "expected <repository>/<model>/config.pbtxt and "
                                             "<repository>/<model>/1/<model file>"});
  return NULL;
}

// Reports repositories that cannot be listed; the others are checked nevertheless.
static error *add_unreadable(check *c)
{
  const string_list *paths = &c->targets.repositories;
  for (size_t i = 0; i < paths->count; i++) {
    AUTO_ROOT file_root root = FILE_ROOT_CLOSED;
    string_list names = {0};
    const char *path = paths->items[i];
    error *e = files_open_root(path, &c->links, &root);
    if (e == NULL)
      e = files_list(&root, ".", &names);
    string_list_fini(&names);
    if (e != NULL && error_get_code(e) == ERROR_UNAVAILABLE)
      return e;
    AUTO_ERROR error *told = e == NULL ? NULL : error_wrap(e, "failed to read model repository");
    if (told != NULL)
      check_report_add(&c->report, &(check_finding){.severity = DIAGNOSTIC_ERROR,
                                                    .model = "",
                                                    .file = path,
                                                    .message = error_message(told)});
  }
  return NULL;
}

static error *check_whole_repositories(check *c)
{
  repository_listing listing;
  AUTO_REPOSITORY_SET repository_set set;
  RETURN_IF_ERROR(repository_set_init(&set, &c->targets.repositories, &c->links,
                                      c->options->model_namespacing));
  if (c->targets.repositories.count == 0)
    return NULL;
  RETURN_IF_ERROR(add_unreadable(c));
  error *e = repository_scan(&set, &listing);
  if (e != NULL && error_get_code(e) != ERROR_UNAVAILABLE) {
    error_free(e); // add_unreadable reported it
    e = NULL;
  }
  if (e == NULL)
    e = check_listing(c, &set, &listing);
  repository_listing_fini(&listing);
  return e;
}

// ---- all of it ----

static error *begin_trial(check *c, bool load)
{
  if (!load)
    return NULL;
  string_list repositories = {0};
  for (size_t i = 0; i < c->targets.repositories.count; i++)
    string_list_add(&repositories, c->targets.repositories.items[i]);
  for (size_t i = 0; i < c->targets.count; i++)
    if (!string_list_contains(&repositories, c->targets.items[i].repository))
      string_list_add(&repositories, c->targets.items[i].repository);
  error *e = repositories.failed ? error_no_memory()
                                 : model_trial_begin(&c->trial, c->options, &repositories);
  string_list_fini(&repositories);
  return e;
}

static error *run(check *c, const char *const *paths, size_t count, bool load)
{
  RETURN_IF_ERROR(check_targets_init(&c->targets, c->options, paths, count));
  RETURN_IF_ERROR(init_links(c));
  RETURN_IF_ERROR(gpus_new(c->options, &c->gpus));
  RETURN_IF_ERROR(begin_trial(c, load));
  RETURN_IF_ERROR(check_whole_repositories(c));
  for (size_t i = 0; i < c->targets.count; i++)
    RETURN_IF_ERROR(check_one(c, &c->targets.items[i]));
  return NULL;
}

error *check_report_repositories(const server_options *options, const char *const *paths,
                                 size_t count, bool load, buffer *report)
{
  check c = {.options = options};
  error *e = run(&c, paths, count, load);
  if (e == NULL)
    check_report_print(&c.report, report);
  if (e == NULL && report->failed)
    e = error_no_memory();
  model_trial_end(&c.trial);
  gpus_free(c.gpus);
  check_report_fini(&c.report);
  check_targets_fini(&c.targets);
  file_policy_fini(&c.links);
  return e;
}
