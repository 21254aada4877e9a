// SPDX-License-Identifier: Apache-2.0
// Looks at the models of an ensemble's steps; see ensemble_rules.h. No two entries' locks are held
// at once.
#include "core/ensemble_rules.h"

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/string_map.h"
#include "core/ensemble_record.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// ---- which model a step means ----

typedef enum step_state {
  STEP_ABSENT,  // nobody has tried to load it, or it was unloaded
  STEP_INVALID, // an ensemble that cannot be served
  STEP_FAILED,  // no version came up
  STEP_READY,
} step_state;

static const char *after_prefix(const char *text, const char *name)
{
  AUTO_BUFFER buffer prefix = BUFFER_EMPTY;
  buffer_append_format(&prefix, "load failed for model '%s': ", name);
  bool has = !prefix.failed && strncmp(text, prefix.data, prefix.size) == 0;
  return has ? text + prefix.size : text;
}

// Adds the first line, which is Triton's; the other lines say where.
static void add_line(buffer *out, const char *text)
{
  if (text != NULL)
    buffer_append(out, text, strcspn(text, "\n"));
}

// Adds why the versions of a model did not come up, as its load reported. False: none failed.
static bool add_failures(const model_entry *entry, buffer *why)
{
  bool any = false;
  for (size_t i = 0; i < entry->version_count; i++) {
    const version_slot *v = &entry->versions[i];
    if (v->state != VERSION_UNAVAILABLE || version_slot_is_excused(v))
      continue;
    any = true;
    buffer_append_format(why, "version %" PRId64 " is at UNAVAILABLE state: %s;", v->version,
                         v->reason != NULL ? v->reason : "");
  }
  if (any || entry->failure == NULL || !entry->failure_counts)
    return any;
  add_line(why, after_prefix(entry->failure, entry->name));
  return true;
}

// `why` and `m` may be NULL; *m gets a reference to the newest version.
static step_state look_at_step(model_entry *entry, buffer *why, model **m)
{
  LOCK_SCOPE(&entry->lock);
  version_slot *latest = model_entry_latest(entry);
  if (latest != NULL) {
    if (m != NULL)
      *m = model_ref(latest->ready);
    return STEP_READY;
  }
  AUTO_BUFFER buffer unused = BUFFER_EMPTY;
  if (add_failures(entry, why != NULL ? why : &unused))
    return STEP_FAILED;
  if (entry->ensemble == NULL)
    return STEP_ABSENT;
  if (why != NULL)
    add_line(why, entry->failure);
  return STEP_INVALID;
}

model_entry *ensemble_step_entry(model_table *models, const model_entry *ensemble,
                                 const char *model_name)
{
  const size_t prefix = (size_t)(ensemble->bare - ensemble->name);
  model_entry *found = NULL, *entry = NULL;
  size_t count = 0;
  while ((entry = model_table_next_bare(models, model_name, entry)) != NULL) {
    if (look_at_step(entry, NULL, NULL) == STEP_ABSENT)
      continue;
    if ((size_t)(entry->bare - entry->name) == prefix &&
        memcmp(entry->name, ensemble->name, prefix) == 0)
      return entry;
    found = entry;
    count++;
  }
  return count == 1 ? found : NULL;
}

// ---- circles ----

static void add_steps_of(model_entry *entry, string_list *names)
{
  LOCK_SCOPE(&entry->lock);
  if (entry->ensemble != NULL)
    ensemble_add_steps(entry->ensemble->config, names);
}

// The first ensemble in `seen` that has the first entry of `seen` as a step, or NULL. Adds the
// steps that are not in it yet.
static model_entry *find_circle(model_table *models, string_map *seen)
{
  model_entry *last = NULL;
  for (size_t at = 0; last == NULL && at < seen->entry_count; at++) {
    model_entry *ensemble = seen->entries[at].value;
    string_list names = {0};
    add_steps_of(ensemble, &names);
    for (size_t i = 0; last == NULL && i < names.count; i++) {
      model_entry *step = ensemble_step_entry(models, ensemble, names.items[i]);
      if (step == NULL)
        continue;
      if (step == seen->entries[0].value)
        last = ensemble;
      else if (string_map_get(seen, slice_of(step->name)) == NULL)
        string_map_put(seen, slice_of(step->name), step);
    }
    string_list_fini(&names);
  }
  return last;
}

static model_entry *end_of_circle(model_table *models, model_entry *entry)
{
  string_map seen = {0};
  model_entry *last = NULL;
  if (string_map_put(&seen, slice_of(entry->name), entry))
    last = find_circle(models, &seen);
  string_map_fini(&seen);
  return last;
}

bool ensemble_is_circular(model_table *models, model_entry *entry)
{
  return end_of_circle(models, entry) != NULL;
}

// ---- the check ----

// Reports the first step without a model, as Triton does.
static error *check_present(model_table *models, const model_entry *entry,
                            const Inference__ModelConfig *config)
{
  for (size_t i = 0; i < config->ensemble_scheduling->n_step; i++) {
    const char *name = config->ensemble_scheduling->step[i]->model_name;
    if (ensemble_step_entry(models, entry, name) == NULL)
      return error_new(ERROR_INVALID_ARG,
                       "ensemble %s contains models that are not available or ambiguous: %s",
                       entry->name, name);
  }
  return NULL;
}

static bool has_version(model_entry *entry, int64_t version)
{
  LOCK_SCOPE(&entry->lock);
  const version_slot *v = model_entry_version(entry, version);
  return v != NULL && v->state == VERSION_READY;
}

static error *take_step(const model_entry *ensemble, model_entry *step, int64_t version, model **m)
{
  AUTO_BUFFER buffer why = BUFFER_EMPTY;
  step_state state = look_at_step(step, &why, m);
  buffer_append_char(&why, '\0');
  if (why.failed)
    return error_no_memory();
  switch (state) {
  case STEP_READY:
    if (version == -1 || has_version(step, version))
      return NULL;
    return error_new(ERROR_INVALID_ARG,
                     "ensemble '%s' depends on '%s' whose required version %" PRId64
                     " is not loaded.",
                     ensemble->name, step->name, version);
  case STEP_INVALID:
    return error_new(
        ERROR_INVALID_ARG,
        "ensemble '%s' depends on '%s' which is not valid. Model '%s' failed with error: %s",
        ensemble->name, step->name, step->name, why.data);
  case STEP_FAILED:
    return error_new(ERROR_INVALID_ARG,
                     "ensemble '%s' depends on '%s' which has no loaded version. Model '%s' "
                     "loading failed with error: %s",
                     ensemble->name, step->name, step->name, why.data);
  default: // it was unloaded a moment ago
    return error_new(ERROR_INVALID_ARG,
                     "ensemble '%s' depends on '%s' which has no loaded version.", ensemble->name,
                     step->name);
  }
}

static error *take_steps(model_table *models, const model_entry *entry,
                         Inference__ModelConfig *config, config_step_model *steps, model **taken)
{
  for (size_t i = 0; i < config->ensemble_scheduling->n_step; i++) {
    Inference__ModelEnsembling__Step *step = config->ensemble_scheduling->step[i];
    model_entry *of = ensemble_step_entry(models, entry, step->model_name);
    if (of == NULL)
      return error_new(ERROR_INVALID_ARG,
                       "ensemble %s contains models that are not available or ambiguous: %s",
                       entry->name, step->model_name);
    RETURN_IF_ERROR(take_step(entry, of, step->model_version, &taken[i]));
    steps[i] = (config_step_model){of->name, taken[i]->config};
    if (of->bare - of->name > 2) { // the prefix ends with "::"
      AUTO_BUFFER buffer space = BUFFER_EMPTY;
      buffer_append(&space, of->name, (size_t)(of->bare - of->name) - 2);
      buffer_append_char(&space, '\0');
      RETURN_IF_ERROR(space.failed ? error_no_memory() : config_place_step(step, space.data));
    }
  }
  return NULL;
}

error *ensemble_check(model_table *models, model_entry *entry, Inference__ModelConfig *config,
                      const source_map *places)
{
  const size_t count = config->ensemble_scheduling->n_step;
  bool decoupled = false;
  RETURN_IF_ERROR(check_present(models, entry, config));
  const model_entry *last = end_of_circle(models, entry);
  if (last != NULL)
    return error_new(ERROR_INVALID_ARG,
                     "circular dependency between ensembles: %s -> ... -> %s -> %s", entry->name,
                     last->name, entry->name);
  config_step_model *steps AUTO_FREE = calloc(count + 1, sizeof(*steps));
  model **taken AUTO_FREE = calloc(count + 1, sizeof(*taken));
  if (steps == NULL || taken == NULL)
    return error_no_memory();
  error *e = take_steps(models, entry, config, steps, taken);
  if (e == NULL)
    e = config_validate_steps(config, entry->name, steps, places, &decoupled);
  for (size_t i = 0; i < count; i++)
    if (taken[i] != NULL)
      model_unref(taken[i]);
  return e != NULL ? e : config_set_decoupled(config, decoupled); // as in Triton, each has it
}
