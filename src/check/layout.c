// SPDX-License-Identifier: Apache-2.0
// Finds mistakes of a model's directories and files: versions, names, files that the configuration
// needs. Opens only directories.
#include "base/cleanup.h"
#include "base/text.h"
#include "check/checked_model.h"
#include "core/backend_search.h"
#include "core/batch_strategy.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define CONFIG_FILE "config.pbtxt"

// ---- entries ----

static file_kind kind_of(const checked_model *m, const char *file)
{
  file_kind kind = FILE_ABSENT;
  AUTO_ERROR error *e = files_kind(&m->dir.root, file, &kind);
  if (e != NULL && error_get_code(e) == ERROR_UNAVAILABLE)
    m->report->problems.failed = true;
  return kind; // after a disk error it counts as absent
}

static error *list_names(const checked_model *m, const char *dir, string_list *names)
{
  error *e = files_list(&m->dir.root, dir, names);
  if (e == NULL || error_get_code(e) == ERROR_UNAVAILABLE)
    return e;
  error_free(e);
  return NULL;
}

static bool is_number(const char *name)
{
  return name[0] != '\0' && name[strspn(name, "0123456789")] == '\0';
}

// Whether a backend of the table has model files of this name.
static bool is_model_file(const char *name)
{
  for (const backend_traits *b = backend_table; b->name != NULL; b++)
    for (const backend_format *f = b->formats; f->file != NULL; f++)
      if (strcasecmp(name, f->file) == 0)
        return true;
  return false;
}

static error *holds_model_file(const checked_model *m, const char *dir, bool *holds)
{
  string_list names = {0};
  error *e = list_names(m, dir, &names);
  *holds = false;
  for (size_t i = 0; i < names.count; i++)
    *holds = *holds || is_model_file(names.items[i]);
  string_list_fini(&names);
  return e;
}

// ---- directories ----

static error *look_at_folder(checked_model *m, const char *name)
{
  char fix[96];
  int64_t version;
  bool holds;
  if (is_number(name) && text_to_int64(slice_of(name), &version)) {
    if (name[0] != '0' || name[1] == '\0')
      return NULL;
    snprintf(fix, sizeof(fix), "rename it to '%" PRId64 "'", version);
    checked_model_add(m, DIAGNOSTIC_WARNING, name, NULL, fix,
                      "ignore version directory '%s' which contains leading zeros in its directory "
                      "name",
                      name);
    return NULL;
  }
  if (is_number(name)) {
    checked_model_add(m, DIAGNOSTIC_WARNING, name, NULL, NULL,
                      "version directory '%s' is ignored: the number is too large", name);
    return NULL;
  }
  RETURN_IF_ERROR(holds_model_file(m, name, &holds));
  if (holds)
    checked_model_add(m, DIAGNOSTIC_WARNING, name, NULL,
                      "a version's name is a number without leading zeros, such as 1",
                      "directory '%s' is ignored: its name is no version number", name);
  return NULL;
}

static void look_at_file(checked_model *m, const char *name)
{
  char fix[NAME_MAX + 64];
  if (!m->has_config && strncasecmp(name, "config.", 7) == 0) {
    checked_model_add(m, DIAGNOSTIC_WARNING, name, NULL, "rename it to '" CONFIG_FILE "'",
                      "file '%s' is ignored: a model's configuration is called '" CONFIG_FILE "'",
                      name);
  } else if (is_model_file(name)) {
    snprintf(fix, sizeof(fix), "move it to '1/%s'", name);
    checked_model_add(m, DIAGNOSTIC_WARNING, name, NULL, fix,
                      "file '%s' is ignored: models' files lie in version directories", name);
  }
}

static error *look_at_entries(checked_model *m)
{
  for (size_t i = 0; i < m->entries.count; i++) {
    const char *name = m->entries.items[i];
    file_kind kind = kind_of(m, name);
    if (kind == FILE_FOLDER)
      RETURN_IF_ERROR(look_at_folder(m, name));
    else if (kind == FILE_REGULAR)
      look_at_file(m, name);
  }
  return NULL;
}

// ---- versions ----

static bool has_version(const checked_model *m, int64_t version)
{
  for (size_t i = 0; i < m->dir.version_count; i++)
    if (m->dir.versions[i].version == version)
      return true;
  return false;
}

static const Inference__ModelVersionPolicy__Specific *specific_of(const checked_model *m)
{
  const Inference__ModelVersionPolicy *policy = m->config->version_policy;
  return policy != NULL && policy->policy_choice_case ==
                               INFERENCE__MODEL_VERSION_POLICY__POLICY_CHOICE_SPECIFIC
             ? policy->specific
             : NULL;
}

// The existing versions that the policy selects; `wanted` has room for all.
static size_t select_versions(checked_model *m, int64_t *wanted)
{
  const Inference__ModelVersionPolicy__Specific *specific = specific_of(m);
  size_t count = 0;
  int64_t *available = wanted + m->dir.version_count;
  for (size_t i = 0; i < m->dir.version_count; i++)
    available[i] = m->dir.versions[i].version;
  if (specific == NULL) {
    config_select_versions(m->config, available, m->dir.version_count, wanted, &count);
    return count;
  }
  for (size_t i = 0; i < m->dir.version_count; i++)
    for (size_t k = 0; k < specific->n_versions; k++)
      if (specific->versions[k] == available[i]) {
        wanted[count++] = available[i];
        break;
      }
  return count;
}

static void look_for_specific(checked_model *m)
{
  const Inference__ModelVersionPolicy__Specific *specific = specific_of(m);
  for (size_t i = 0; specific != NULL && i < specific->n_versions; i++) {
    char field[64];
    if (has_version(m, specific->versions[i]))
      continue;
    snprintf(field, sizeof(field), "version_policy.specific.versions[%zu]", i);
    checked_model_add(m, DIAGNOSTIC_WARNING, m->config_file, field, NULL,
                      "version %" PRId64
                      " is specified for model '%s', but the version directory is not present",
                      specific->versions[i], m->name);
  }
}

static void add_no_version(checked_model *m)
{
  bool by_policy = m->dir.version_count > 0;
  checked_model_add(m, DIAGNOSTIC_ERROR, by_policy ? m->config_file : "", "version_policy",
                    by_policy ? "have one of the versions that are there in the policy"
                              : "make a directory '1' and put the model's file into it",
                    "at least one version must be available under the version policy of model '%s'",
                    m->name);
}

// ---- files ----

// Finds a file that may be meant: with the same suffix, or the same name in other case.
static error *find_similar(const checked_model *m, const char *dir, const char *wanted,
                           char **similar)
{
  string_list names = {0};
  const char *ending = strrchr(wanted, '.');
  error *e = list_names(m, dir, &names);
  for (size_t i = 0; e == NULL && i < names.count; i++) {
    const char *name = names.items[i];
    bool same = strcasecmp(name, wanted) == 0;
    bool alike = *similar == NULL && ending != NULL && text_ends_with(name, ending);
    if ((same || alike) && !text_replace(similar, name))
      e = error_no_memory();
    if (same)
      break;
  }
  string_list_fini(&names);
  return e;
}

static error *add_missing_file(checked_model *m, const char *dir, const char *file)
{
  AUTO_FREE char *similar = NULL;
  AUTO_FREE char *fix = NULL;
  RETURN_IF_ERROR(find_similar(m, dir, file, &similar));
  if (similar != NULL &&
      asprintf(&fix, "rename '%s' to '%s', or have default_model_filename: \"%s\" in %s", similar,
               file, similar, m->config_file) < 0)
    return error_no_memory();
  checked_model_add(m, DIAGNOSTIC_ERROR, dir, NULL, fix, "unable to find '%s/%s/%s' for model '%s'",
                    m->dir.path, dir, file, m->name);
  return NULL;
}

// Checks the file of one version, if the backend is known to need one.
static error *look_for_model_file(checked_model *m, int64_t version)
{
  char dir[32];
  char path[PATH_MAX];
  const backend_traits *traits = backend_traits_of(m->config->backend);
  const char *file = m->config->default_model_filename;
  bool own_library = m->config->runtime != NULL && m->config->runtime[0] != '\0';
  if (traits->name == NULL || own_library || file[0] == '\0')
    return NULL;
  snprintf(dir, sizeof(dir), "%" PRId64, version);
  int size = snprintf(path, sizeof(path), "%s/%s", dir, file);
  if (size >= 0 && (size_t)size < sizeof(path) && kind_of(m, path) != FILE_ABSENT)
    return NULL;
  return add_missing_file(m, dir, file);
}

static void look_for_config_below(checked_model *m)
{
  for (size_t i = 0; i < m->dir.version_count; i++) {
    char path[64];
    snprintf(path, sizeof(path), "%" PRId64 "/" CONFIG_FILE, m->dir.versions[i].version);
    if (kind_of(m, path) != FILE_ABSENT)
      checked_model_add(m, DIAGNOSTIC_WARNING, path, NULL,
                        "move it up into the model's directory, all versions have the same",
                        "a '" CONFIG_FILE "' in a version's directory is ignored");
  }
}

// Checks a file that the configuration names and a load reads.
static void look_for_named(checked_model *m, const char *field, const char *dir, const char *name)
{
  char path[PATH_MAX];
  int size = snprintf(path, sizeof(path), "%s%s", dir, name);
  if (name[0] == '\0' || size < 0 || (size_t)size >= sizeof(path) ||
      kind_of(m, path) == FILE_REGULAR)
    return;
  checked_model_add(m, DIAGNOSTIC_ERROR, m->config_file, field, NULL,
                    "failed to open text file for read %s/%s: %s", m->dir.path, path,
                    kind_of(m, path) == FILE_ABSENT ? "No such file or directory"
                                                    : "it is no regular file");
}

static void look_for_labels(checked_model *m)
{
  for (size_t i = 0; i < m->config->n_output; i++) {
    char field[64];
    snprintf(field, sizeof(field), "output[%zu].label_filename", i);
    look_for_named(m, field, "", m->config->output[i]->label_filename);
  }
}

static error *look_for_warmup(checked_model *m)
{
  for (size_t i = 0; i < m->config->n_model_warmup; i++) {
    const Inference__ModelWarmup *sample = m->config->model_warmup[i];
    for (size_t k = 0; k < sample->n_inputs; k++) {
      const Inference__ModelWarmup__InputsEntry *entry = sample->inputs[k];
      AUTO_FREE char *field = NULL;
      if (entry->value == NULL ||
          entry->value->input_data_type_case !=
              INFERENCE__MODEL_WARMUP__INPUT__INPUT_DATA_TYPE_INPUT_DATA_FILE)
        continue;
      if (asprintf(&field, "model_warmup[%zu].inputs[\"%s\"].input_data_file", i, entry->key) < 0)
        return error_no_memory();
      look_for_named(m, field, "warmup/", entry->value->input_data_file);
    }
  }
  return NULL;
}

// ---- libraries ----

// Reports a missing library: an error if models are loaded, else a warning, as the server may have
// another backend directory.
static error *report_library(checked_model *m, const char *field, const char *fix, error *e_owned)
{
  if (e_owned == NULL || error_get_code(e_owned) == ERROR_UNAVAILABLE)
    return e_owned;
  checked_model_add(m, m->loads ? DIAGNOSTIC_ERROR : DIAGNOSTIC_WARNING, m->config_file, field, fix,
                    "%s", error_message(e_owned));
  error_free(e_owned);
  return NULL;
}

static error *look_for_libraries(checked_model *m, int64_t version)
{
  const model_environment environment = {.options = m->options};
  const model_source source = {.name = m->name,
                               .version = version,
                               .repository = m->repository,
                               .folder = m->name,
                               .dir = m->dir.path,
                               .links = m->links,
                               .config_owned = m->config};
  AUTO_FREE char *strategy = NULL;
  char fix[128];
  const bool named = m->config->runtime[0] != '\0'; // the configuration names the library
  const char *nearest = named ? NULL : backend_traits_nearest(m->config->backend);
  if (m->config->backend[0] == '\0')
    return NULL;
  snprintf(fix, sizeof(fix), "did you mean '%s'?", nearest != NULL ? nearest : "");
  error *e = backend_is_there(&environment, &source);
  if (e != NULL && error_get_code(e) != ERROR_UNAVAILABLE)
    check_report_add_missing_backend(m->report, m->config->backend);
  RETURN_IF_ERROR(
      report_library(m, named ? "runtime" : "backend", nearest != NULL ? fix : NULL, e));
  return report_library(m, "parameters[\"TRITON_BATCH_STRATEGY_PATH\"]", NULL,
                        batch_strategy_find(&environment, &source, &strategy));
}

// ---- all of it ----

static error *look_at_versions(checked_model *m)
{
  AUTO_FREE int64_t *wanted = calloc(m->dir.version_count + 1, 2 * sizeof(*wanted));
  if (wanted == NULL)
    return error_no_memory();
  size_t count = select_versions(m, wanted);
  look_for_specific(m);
  if (count == 0)
    add_no_version(m);
  for (size_t i = 0; i < count; i++)
    RETURN_IF_ERROR(look_for_model_file(m, wanted[i]));
  return look_for_libraries(m, count > 0 ? wanted[count - 1] : 1);
}

// Agents may fetch the files, or redirect to another directory.
static bool is_moved_by_agents(const Inference__ModelConfig *config)
{
  return config->model_repository_agents != NULL && config->model_repository_agents->n_agents > 0;
}

error *checked_model_look(checked_model *m)
{
  if (!m->whole || m->dir.root.descriptor < 0)
    return NULL;
  RETURN_IF_ERROR(look_at_entries(m));
  look_for_config_below(m);
  if (m->config == NULL || is_moved_by_agents(m->config))
    return NULL;
  RETURN_IF_ERROR(look_at_versions(m));
  look_for_labels(m);
  return look_for_warmup(m);
}
