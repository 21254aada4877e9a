// SPDX-License-Identifier: Apache-2.0
// The models that a server loads at its start, and their loads. On the start-up thread; threads of
// the pool begin the loads.
#include "core/startup_models.h"

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/files.h"
#include "base/log.h"
#include "base/thread.h"
#include "core/dependents.h"
#include "core/server_state.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_startup_model(const server *s, const char *name)
{
  return s->options.model_control_mode != TRITONSERVER_MODEL_CONTROL_EXPLICIT ||
         string_list_contains(&s->options.startup_models, "*") ||
         string_list_contains(&s->options.startup_models, name);
}

static void tell_absent(server *s, const char *name)
{
  repository_listing found;
  AUTO_ERROR error *why = repository_find(&s->repositories, name, &found);
  repository_listing_fini(&found);
  if (why != NULL)
    log_error("failed to poll model '%s': %s.", name, error_message(why));
}

// Logs start-up models that are in no repository. False: there are some.
static bool all_are_found(server *s, const repository_listing *listing)
{
  bool all = true;
  if (s->options.model_control_mode != TRITONSERVER_MODEL_CONTROL_EXPLICIT)
    return true;
  for (size_t i = 0; i < s->options.startup_models.count; i++) {
    const char *name = s->options.startup_models.items[i];
    bool found = strcmp(name, "*") == 0;
    for (size_t k = 0; !found && k < listing->count; k++)
      found = strcmp(listing->items[k].bare, name) == 0;
    if (!found)
      tell_absent(s, name);
    all = all && found;
  }
  return all;
}

// The load of one model at the start; a thread of the pool begins it.
typedef struct startup_load {
  load_task task;
  server *server;
  const repository_model *found;
  load_operation *operation; // NULL: there is nothing to wait for
  load_steps steps;          // of an ensemble, whose load has not begun
  bool failed;
  bool no_model; // the directory is none, which is no failure
  size_t *left;  // loads that have not begun yet; guarded by server->lock
} startup_load;

// Whether the directory was never meant to be a model: .git, lost+found, scripts. For a model that
// was asked for by name, the load reports the reason.
static bool is_no_model(const startup_load *l)
{
  server *s = l->server;
  if (string_list_contains(&s->options.startup_models, l->found->bare))
    return false;
  bool is_model;
  AUTO_ERROR error *e = repository_is_model(&s->repositories, l->found, &is_model);
  if (e != NULL || is_model)
    return false;
  log_info(
      "directory '%s' of '%s' is no model: it has no config.pbtxt, no version and no file model.*",
      l->found->name, l->found->repository);
  return true;
}

static void begin_startup_load(load_task *task)
{
  startup_load *l = container_of(task, startup_load, task);
  AUTO_ERROR error *e = NULL;
  l->no_model = is_no_model(l);
  if (!l->no_model && l->found->duplicate)
    log_error("failed to poll model '%s': not unique across all model repositories",
              l->found->name);
  else if (!l->no_model)
    e = lifecycle_begin_load( // logs its failure
        l->server, &(load_wish){.found = l->found, .by_name = true, .steps = &l->steps},
        &l->operation);
  l->failed = !l->no_model && (l->found->duplicate || e != NULL);
  LOCK_SCOPE(&l->server->lock);
  if (--*l->left == 0)
    pthread_cond_broadcast(&l->server->changed);
}

// A model's own directory has a configuration in it, or versions and nothing else.
static bool is_models_own(const char *repository, const startup_load *loads, size_t count)
{
  bool versions = true;
  AUTO_BUFFER buffer config = BUFFER_EMPTY;
  buffer_append_format(&config, "%s/config.pbtxt", repository);
  buffer_append_char(&config, '\0');
  if (!config.failed && access(config.data, F_OK) == 0)
    return true;
  for (size_t i = 0; i < count; i++) {
    const char *name = loads[i].found->bare;
    if (strcmp(loads[i].found->repository, repository) == 0)
      versions = versions && name[strspn(name, "0123456789")] == '\0';
  }
  return versions;
}

static void hint_at_parent(const char *repository)
{
  size_t size = strlen(repository);
  while (size > 1 && repository[size - 1] == '/')
    size--;
  while (size > 0 && repository[size - 1] != '/')
    size--;
  while (size > 1 && repository[size - 1] == '/')
    size--;
  log_warning(
      "'%s' looks like a model's own directory: --model-repository is the directory above it, "
      "'%.*s'",
      repository, size > 0 ? (int)size : 1, size > 0 ? repository : ".");
}

// A version's directory is named by a number and has files; a repository has directories.
static bool is_versions_own(const server *s, const char *repository)
{
  char *path AUTO_FREE = realpath(repository, NULL);
  string_list names = {0};
  AUTO_ROOT file_root dir = FILE_ROOT_CLOSED;
  if (path == NULL)
    return false;
  const char *name = strrchr(path, '/') + 1;
  if (name[0] == '\0' || name[strspn(name, "0123456789")] != '\0')
    return false;
  AUTO_ERROR error *e = files_open_root(path, &s->links, &dir);
  if (e == NULL)
    e = files_list(&dir, ".", &names);
  bool has_files = e == NULL && names.count > 0;
  string_list_fini(&names);
  return has_files;
}

// Repositories without a directory, in which no load begins.
static void hint_at_grandparents(const server *s, const repository_listing *listing)
{
  for (size_t i = 0; i < s->options.model_repositories.count; i++) {
    const char *repository = s->options.model_repositories.items[i];
    bool has_directory = false;
    for (size_t k = 0; k < listing->count; k++)
      has_directory = has_directory || strcmp(listing->items[k].repository, repository) == 0;
    if (!has_directory && is_versions_own(s, repository))
      log_warning("'%s' looks like the directory of a model's version: --model-repository is the "
                  "directory above the model's",
                  repository);
  }
}

static void hint_at_parents(const startup_load *loads, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    const char *repository = loads[i].found->repository;
    bool seen = false;
    for (size_t k = 0; k < i && !seen; k++)
      seen = strcmp(loads[k].found->repository, repository) == 0;
    if (!seen && is_models_own(repository, loads, count))
      hint_at_parent(repository);
  }
}

// False: no directory of the repositories is a model, so they are not the right ones.
static bool has_models(const startup_load *loads, size_t count)
{
  for (size_t i = 0; i < count; i++)
    if (!loads[i].no_model)
      return true;
  if (count > 0)
    log_error("no directory of the model repositories is a model");
  return count == 0;
}

// Loads the ensembles, now that the other models' loads are over. False: one failed.
static bool load_ensembles(server *s, startup_load *loads, size_t count)
{
  bool all_in = true;
  size_t wished = 0;
  model_wish *wishes AUTO_FREE = calloc(count + 1, sizeof(*wishes));
  for (size_t i = 0; wishes != NULL && i < count; i++)
    if (loads[i].steps.is_ensemble)
      wishes[wished++] = (model_wish){.found = loads[i].found};
  if (wished > 0)
    dependents_load(s, wishes, wished, NULL);
  for (size_t i = 0; i < wished; i++) {
    all_in = all_in && wishes[i].failure == NULL;
    error_free(wishes[i].failure);
  }
  for (size_t i = 0; i < count; i++)
    string_list_fini(&loads[i].steps.models);
  return all_in && wishes != NULL;
}

// False: a load failed.
static bool load_all(server *s, startup_load *loads, size_t count)
{
  bool all_in = true;
  size_t left = count;
  for (size_t i = 0; i < count; i++) {
    loads[i].left = &left;
    load_pool_add(&s->pool, &loads[i].task);
  }
  pthread_mutex_lock(&s->lock);
  while (left > 0)
    pthread_cond_wait(&s->changed, &s->lock);
  pthread_mutex_unlock(&s->lock);
  for (size_t i = count; i-- > 0;) { // the last first, so that this thread rarely has to wait again
    AUTO_ERROR error *failure = lifecycle_await_load(loads[i].operation);
    all_in = all_in && !loads[i].failed && failure == NULL;
  }
  all_in = load_ensembles(s, loads, count) && all_in;
  hint_at_parents(loads, count);
  return has_models(loads, count) && all_in;
}

error *load_startup_models(server *s)
{
  repository_listing listing;
  if (s->options.model_control_mode == TRITONSERVER_MODEL_CONTROL_EXPLICIT &&
      s->options.startup_models.count == 0)
    return NULL;
  error *e = repository_scan(&s->repositories, &listing);
  startup_load *loads = e == NULL ? calloc(listing.count + 1, sizeof(*loads)) : NULL;
  if (e == NULL && loads == NULL)
    e = error_no_memory();
  bool all_in = e == NULL && all_are_found(s, &listing);
  size_t count = 0;
  for (size_t i = 0; loads != NULL && i < listing.count; i++)
    if (is_startup_model(s, listing.items[i].bare))
      loads[count++] =
          (startup_load){.task.run = begin_startup_load, .server = s, .found = &listing.items[i]};
  all_in = load_all(s, loads, count) && all_in;
  if (e == NULL)
    hint_at_grandparents(s, &listing);
  free(loads);
  repository_listing_fini(&listing);
  if (e == NULL && !all_in)
    e = error_new(ERROR_INTERNAL, "failed to load all models");
  return e;
}
