// SPDX-License-Identifier: Apache-2.0
// From a directory to jobs: reads, completes and checks the configuration, finds the versions, and
// decides what happens to each.
#include "core/load_plan.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"
#include "base/thread.h"
#include "core/ensemble_record.h"
#include "core/ensemble_rules.h"
#include "core/model_instances.h"
#include "core/unload.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// For files or a configuration that came with the request: any directory differs from this stamp,
// so the next plain load returns to the directory.
static const file_stamp NEVER_CHANGED = {0};

// ---- the configuration ----

// Reads the request's configuration, or else the operator's, as it is.
static error *read_raw_config(const server *s, const repository_dir *dir, const char *config_json,
                              source_map *places, Inference__ModelConfig **config)
{
  if (config_json == NULL)
    return repository_read_config(dir, s->options.model_config_name,
                                  !s->options.strict_model_config, places, config);
  error *e = config_read_json(slice_of(config_json), config);
  return e == NULL ? NULL : error_wrap(e, "Invalid config override");
}

// The operator's configuration, which tells which paths are the operator's. NULL: it came with the
// request, or cannot be read.
static Inference__ModelConfig *read_own_config(const server *s, const repository_dir *dir)
{
  Inference__ModelConfig *own = NULL;
  AUTO_SOURCE_MAP source_map places = SOURCE_MAP_EMPTY;
  if (dir->root.policy->links != FILE_LINKS_NONE)
    error_free(repository_read_config(dir, s->options.model_config_name, true, &places, &own));
  return own;
}

// Hands the model to the agents that its configuration names; the directory they leave is loaded.
static error *run_agents(load_operation *o, repository_dir *dir,
                         const Inference__ModelConfig *config)
{
  const char *place;
  const file_policy *links = dir->root.policy;
  const agent_chain_source source = {&o->server->agents, config, dir->path, links,
                                     o->server->options.model_config_name};
  RETURN_IF_ERROR(agent_chain_new(&source, &o->agents));
  RETURN_IF_ERROR(agent_chain_dir(o->agents, &place));
  if (strcmp(place, dir->path) == 0)
    return NULL;
  if (!text_replace(&o->repository, place) || !text_replace(&o->folder, "."))
    return error_no_memory();
  repository_dir_fini(dir);
  return repository_open(o->repository, o->folder, links, dir);
}

// Reads the configuration, lets agents move the model, and completes what needs no backend.
static error *read_config(load_operation *o, const repository_model *found, repository_dir *dir,
                          const char *config_json)
{
  const server *s = o->server;
  const char *name = o->entry->bare;
  bool of_request = config_json != NULL || dir->root.policy->links == FILE_LINKS_NONE;
  AUTO_CONFIG Inference__ModelConfig *config = NULL, *own = NULL;
  RETURN_IF_ERROR(read_raw_config(s, dir, config_json, &o->places, &config));
  if (found->mapped)
    RETURN_IF_ERROR(config_rename(config, name));
  if (of_request)
    own = read_own_config(s, dir);
  if (agent_chain_is_wanted(config))
    RETURN_IF_ERROR(run_agents(o, dir, config));
  RETURN_IF_ERROR(config_set_defaults(config, name, &dir->root));
  RETURN_IF_ERROR(config_check_name(config, name));
  RETURN_IF_ERROR(config_validate_model(config, &o->places));
  if (of_request)
    RETURN_IF_ERROR(config_check_request_paths(config, own));
  if (s->options.strict_model_config)
    RETURN_IF_ERROR(config_validate_tensors(config, &o->places));
  RETURN_IF_ERROR(config_check_batch_io(config, &o->places));
  o->config = config;
  config = NULL;
  return NULL;
}

// ---- versions ----

static error *select_versions(load_operation *o, const repository_dir *dir)
{
  int64_t *available AUTO_FREE = calloc(dir->version_count + 1, sizeof(*available));
  o->wanted = calloc(dir->version_count + 1, sizeof(*o->wanted));
  o->jobs = calloc(dir->version_count + 1, sizeof(*o->jobs));
  if (available == NULL || o->wanted == NULL || o->jobs == NULL)
    return error_no_memory();
  for (size_t i = 0; i < dir->version_count; i++)
    available[i] = dir->versions[i].version;
  config_select_versions(o->config, available, dir->version_count, o->wanted, &o->wanted_count);
  if (o->wanted_count > 0)
    return NULL;
  return error_new(ERROR_INVALID_ARG,
                   "load failed for model '%s': at least one version must be available under the "
                   "version policy of model '%s'\n",
                   o->entry->name, o->entry->name);
}

static file_stamp stamp_of(const repository_dir *dir, int64_t version)
{
  for (size_t i = 0; i < dir->version_count; i++)
    if (dir->versions[i].version == version)
      return dir->versions[i].stamp;
  return NEVER_CHANGED;
}

static bool add_wanted_versions(load_operation *o)
{
  for (size_t i = 0; i < o->wanted_count; i++)
    if (model_entry_add_version(o->entry, o->wanted[i]) == NULL)
      return false;
  return true;
}

typedef enum version_fate {
  FATE_LOAD,
  FATE_STAY,
  FATE_UPDATE,
} version_fate;

// A version stays when its files are unchanged, and its configuration too, except for what can
// change while it serves. A model with agents is always loaded. Instances are looked at even when
// no group has changed: after a load in which another version failed they may differ from the
// entry's configuration.
static version_fate fate_of(const load_operation *o, const version_slot *v, file_stamp stamp)
{
  const Inference__ModelConfig *before = o->entry->config;
  if (o->anew || o->agents != NULL || v->state != VERSION_READY || before == NULL ||
      file_stamp_differs(stamp, v->stamp))
    return FATE_LOAD;
  if (config_equal_but_groups(before, o->config) && model_can_update_instances(v->ready))
    return FATE_UPDATE;
  return config_equal_but_policy(before, o->config) ? FATE_STAY : FATE_LOAD;
}

// Makes a job for each wanted version that does not stay as it is.
static error *make_jobs(load_operation *o, const repository_dir *dir)
{
  model_entry *entry = o->entry;
  LOCK_SCOPE(&entry->lock);
  o->dropped = calloc(entry->version_count + o->wanted_count, 2 * sizeof(model *));
  if (o->dropped == NULL || !add_wanted_versions(o))
    return error_no_memory();
  for (size_t i = 0; i < o->wanted_count; i++) {
    version_slot *v = model_entry_version(entry, o->wanted[i]);
    file_stamp stamp = stamp_of(dir, o->wanted[i]);
    version_fate fate = fate_of(o, v, stamp);
    if (fate == FATE_STAY)
      continue;
    o->jobs[o->job_count++] = (load_job){.operation = o,
                                         .version = o->wanted[i],
                                         .serving = fate == FATE_LOAD ? NULL : model_ref(v->ready),
                                         .stamp = o->upload == NULL ? stamp : NEVER_CHANGED};
    if (v->state != VERSION_READY)
      version_slot_set(v, VERSION_LOADING, NULL);
  }
  model_entry_forget_failure(entry);
  o->unloads = entry->unloads;
  return NULL;
}

// ---- failures ----

// Records why a model has no version. As in Triton, a directory or configuration that cannot be
// read does not count against the server's readiness.
static void record_failure(model_entry *entry, const char *reason, bool counts)
{
  LOCK_SCOPE(&entry->lock);
  model_entry_forget_failure(entry);
  for (size_t i = 0; i < entry->version_count; i++)
    if (entry->versions[i].state == VERSION_READY)
      return;
  entry->failure = strdup(reason);
  entry->failure_counts = counts;
}

static void record_no_version(model_entry *entry, const char *reason)
{
  log_error("failed to load model '%s': at least one version must be available under the version "
            "policy of model '%s'",
            entry->name, entry->name);
  record_failure(entry, reason, true);
}

// In Triton's words. An error in a configuration that came with the request is the client's.
static error *poll_failure(const char *name, bool of_request, error *cause_owned)
{
  error_code code = of_request && error_get_code(cause_owned) == ERROR_INVALID_ARG
                        ? ERROR_INVALID_ARG
                        : ERROR_INTERNAL;
  error *e = error_new(code, "failed to load '%s', failed to poll from model repository: %s", name,
                       error_message(cause_owned));
  error_free(cause_owned);
  return e;
}

// The file that a model lacks may be behind a link that is not followed; the error then says so.
static error *with_refused(const repository_dir *dir, error *cause_owned)
{
  if (cause_owned == NULL || dir->refused == NULL)
    return cause_owned;
  error *e = error_new(error_get_code(cause_owned), "%s (a link is not followed: %s)",
                       error_message(cause_owned), error_message(dir->refused));
  error_free(cause_owned);
  return e;
}

static void warn_of_no_cache(const load_operation *o)
{
  const Inference__ModelResponseCache *wanted = o->config->response_cache;
  if (wanted != NULL && wanted->enable && o->server->cache == NULL)
    log_warning("model '%s' has 'response_cache', but the server has no cache (--cache-config): "
                "each answer is computed",
                o->config->name);
}

// ---- ensembles ----

// An ensemble that is loaded again has the configuration of its record.
static error *take_config(load_operation *o)
{
  LOCK_SCOPE(&o->entry->lock);
  return config_copy(o->entry->ensemble->config, &o->config);
}

// An ensemble that is to be loaded again may have been unloaded meanwhile.
static bool was_unloaded(model_entry *entry)
{
  LOCK_SCOPE(&entry->lock);
  return entry->ensemble == NULL;
}

// Records the ensemble, and gives the models that it needs.
static error *await_steps(load_operation *o, const load_wish *wish, file_stamp stamp,
                          bool unchanged)
{
  if (!unchanged && !wish->again) {
    ensemble_record *record = ensemble_record_new(wish->found, o->upload, o->config);
    if (record == NULL)
      return error_no_memory();
    record->stamp = wish->config_json != NULL ? NEVER_CHANGED : stamp;
    model_table_set_ensemble(&o->server->models, o->entry, record);
  }
  wish->steps->is_ensemble = true;
  wish->steps->unchanged = unchanged;
  LOCK_SCOPE(&o->entry->lock);
  ensemble_add_steps(o->entry->ensemble->config, &wish->steps->models);
  return wish->steps->models.failed ? error_no_memory() : NULL;
}

// An ensemble that no longer fits its steps' models is unloaded.
static error *check_ensemble(load_operation *o)
{
  model_entry *entry = o->entry;
  error *e = ensemble_check(&o->server->models, entry, o->config, &o->places);
  if (e == NULL || error_get_code(e) == ERROR_UNAVAILABLE)
    return e;
  const char *text = error_message(e);
  log_error("%s: %s", error_code_text(error_get_code(e)), text);
  unload_versions(entry);
  record_failure(entry, text, false);
  error *refusal =
      error_new(error_get_code(e), "load failed for model '%s': %s\n", entry->name, text);
  error_free(e);
  return refusal;
}

// ---- the plan ----

// Reads what needs no other models. *unchanged: the model serves what its directory has, and the
// configuration is not read.
static error *read_plan(load_operation *o, const load_wish *wish, repository_dir *dir,
                        bool *unchanged)
{
  *unchanged = !wish->again && wish->config_json == NULL && o->entry->stamp.entries != 0 &&
               !file_stamp_differs(dir->stamp, o->entry->stamp);
  if (*unchanged)
    return NULL;
  RETURN_IF_ERROR(with_refused(
      dir, wish->again ? take_config(o) : read_config(o, wish->found, dir, wish->config_json)));
  return version_routing_read(o->config, &o->routing);
}

static error *plan_jobs(load_operation *o, const repository_dir *dir)
{
  if (config_is_ensemble(o->config))
    RETURN_IF_ERROR(check_ensemble(o));
  else
    model_table_set_ensemble(&o->server->models, o->entry, NULL); // it may have been an ensemble
  error *e = select_versions(o, dir);
  if (e != NULL) {
    record_no_version(o->entry, error_message(e));
    return e;
  }
  warn_of_no_cache(o);
  return make_jobs(o, dir);
}

static file_stamp record_stamp(model_entry *entry)
{
  LOCK_SCOPE(&entry->lock);
  return entry->ensemble != NULL ? entry->ensemble->stamp : NEVER_CHANGED;
}

static bool waits_for_steps(const load_operation *o, const load_wish *wish)
{
  return wish->steps != NULL &&
         (o->config != NULL ? config_is_ensemble(o->config) : o->entry->ensemble != NULL);
}

error *load_plan(load_operation *o, const load_wish *wish, bool *nothing)
{
  repository_dir dir;
  const repository_model *found = wish->found;
  bool unchanged = false;
  *nothing = wish->again && was_unloaded(o->entry);
  if (*nothing)
    return NULL;
  error *e = repository_open(found->repository, found->folder, load_links(o), &dir);
  const bool is_open = e == NULL;
  file_stamp stamp = dir.stamp; // of the repository's directory, wherever agents move the model
  if (is_open)
    e = read_plan(o, wish, &dir, &unchanged);
  if (e != NULL) {
    log_error("Poll failed for model directory '%s': %s", found->name, error_message(e));
    record_failure(o->entry, error_message(e), false);
    e = poll_failure(found->bare, is_open && wish->config_json != NULL, e);
  } else if (waits_for_steps(o, wish)) {
    *nothing = true;
    e = await_steps(o, wish, stamp, unchanged);
  } else if (unchanged) {
    *nothing = true;
  } else {
    o->stamp = wish->again                 ? record_stamp(o->entry)
               : wish->config_json != NULL ? NEVER_CHANGED
                                           : stamp;
    o->dir = dir.path;
    dir.path = NULL;
    e = plan_jobs(o, &dir);
  }
  repository_dir_fini(&dir);
  return e;
}
