// SPDX-License-Identifier: Apache-2.0
// Reads one configuration and applies the rules to it; see checked_model.h.
#include "check/checked_model.h"

#include "base/cleanup.h"
#include "core/gpus.h"
#include "core/isolation.h"
#include "core/version_rules.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- findings ----

static char *path_below(const checked_model *m, const char *file)
{
  char *path;
  const char *slash = file[0] != '\0' ? "/" : "";
  return asprintf(&path, "%s%s%s", m->dir.path, slash, file) < 0 ? NULL : path;
}

static void add(checked_model *m, const check_finding *from, const char *file)
{
  check_finding finding = *from;
  AUTO_FREE char *path = path_below(m, file);
  finding.model = m->whole ? m->name : "";
  finding.file = path;
  if (path != NULL)
    check_report_add(m->report, &finding);
  else
    m->report->problems.failed = true;
}

void checked_model_add(checked_model *m, diagnostic_severity severity, const char *file,
                       const char *field, const char *fix, const char *format, ...)
{
  va_list arguments;
  AUTO_BUFFER buffer message = BUFFER_EMPTY;
  check_finding finding = {.severity = severity, .source = &m->source, .field = field, .fix = fix};
  va_start(arguments, format);
  buffer_append_va(&message, format, arguments);
  va_end(arguments);
  buffer_append_char(&message, '\0');
  m->report->problems.failed = m->report->problems.failed || message.failed;
  finding.message = message.failed ? "" : message.data;
  if (field == NULL || m->config_file == NULL || strcmp(file, m->config_file) != 0)
    add(m, &finding, file);
  else
    diagnostics_add(&m->found, &(diagnostic){.severity = severity,
                                             .code = ERROR_INVALID_ARG,
                                             .message = message.failed ? (char *)"" : message.data,
                                             .path = (char *)field,
                                             .place = source_map_find(&m->map, field),
                                             .fix = (char *)fix});
}

static void add_error(checked_model *m, const char *file, error *e_owned)
{
  AUTO_ERROR error *e = e_owned;
  checked_model_add(m, DIAGNOSTIC_ERROR, file, NULL, NULL, "%s", error_message(e));
}

// ---- reading ----

static error *read_text(checked_model *m)
{
  error *e = files_read(&m->dir.root, m->config_file, REPOSITORY_CONFIG_BYTES, &m->text);
  if (e != NULL && error_get_code(e) == ERROR_UNAVAILABLE)
    return e;
  if (e != NULL) {
    add_error(
        m, m->config_file,
        error_wrap(e, "failed to open text file for read %s/%s", m->dir.path, m->config_file));
    return NULL;
  }
  m->source.text = buffer_view(&m->text);
  m->is_read = true;
  e = config_read_text_all(m->source.text, &m->map, &m->found, &m->config);
  if (e == NULL || error_get_code(e) == ERROR_UNAVAILABLE)
    return e;
  error_free(e); // the mistake did not fit into the list
  return error_no_memory();
}

static error *read_config(checked_model *m)
{
  m->has_config = files_exists(&m->dir.root, m->config_file);
  if (m->has_config)
    return read_text(m);
  m->config = config_new();
  m->is_read = !m->options->strict_model_config;
  if (!m->is_read)
    checked_model_add(m, DIAGNOSTIC_ERROR, m->config_file, NULL,
                      "write it, or leave --strict-model-config=false",
                      "failed to open text file for read %s/%s: No such file or directory",
                      m->dir.path, m->config_file);
  return m->config != NULL ? NULL : error_no_memory();
}

error *checked_model_open(checked_model *m, const char *config_name, const char *config_file)
{
  char file[PATH_MAX];
  error *e = repository_open(m->repository, m->name, m->links, &m->dir);
  if (e == NULL)
    e = files_list(&m->dir.root, ".", &m->entries);
  if (e == NULL && config_file == NULL)
    e = repository_config_file(&m->dir, config_name, file);
  if (e != NULL && error_get_code(e) != ERROR_UNAVAILABLE && m->dir.path != NULL) {
    add_error(m, "", e);
    return NULL;
  }
  RETURN_IF_ERROR(e);
  m->config_file = strdup(config_file != NULL ? config_file : file);
  return m->config_file != NULL ? read_config(m) : error_no_memory();
}

void checked_model_fini(checked_model *m)
{
  repository_dir_fini(&m->dir);
  string_list_fini(&m->entries);
  free(m->config_file);
  buffer_fini(&m->text);
  source_map_fini(&m->map);
  diagnostics_fini(&m->found);
  config_free(m->config);
}

// ---- the rules ----

// Whether `path` is a field that the tensor `kind`[index] lacks.
static bool is_lacked(const char *path, const char *kind, size_t index, bool has_type,
                      bool has_dims)
{
  char type[48], dims[48];
  snprintf(type, sizeof(type), "%s[%zu].data_type", kind, index);
  snprintf(dims, sizeof(dims), "%s[%zu].dims", kind, index);
  return (!has_type && strcmp(path, type) == 0) || (!has_dims && strcmp(path, dims) == 0);
}

static bool is_missing_part(const Inference__ModelConfig *config, const char *path)
{
  bool missing = false;
  for (size_t i = 0; i < config->n_input && !missing; i++) {
    const Inference__ModelInput *t = config->input[i];
    missing = is_lacked(path, "input", i, t->data_type != INFERENCE__DATA_TYPE__TYPE_INVALID,
                        t->n_dims > 0);
  }
  for (size_t i = 0; i < config->n_output && !missing; i++) {
    const Inference__ModelOutput *t = config->output[i];
    missing = is_lacked(path, "output", i, t->data_type != INFERENCE__DATA_TYPE__TYPE_INVALID,
                        t->n_dims > 0);
  }
  return missing;
}

// Whether the backend may complete the missing field when the model is loaded.
static bool may_be_completed(const checked_model *m, const diagnostic *d)
{
  if (m->options->strict_model_config || d->severity != DIAGNOSTIC_ERROR)
    return false;
  return (m->config->n_input == 0 && strcmp(d->path, "input") == 0) ||
         (m->config->n_output == 0 && strcmp(d->path, "output") == 0) ||
         (backend_completes_named(m->config->backend) && is_missing_part(m->config, d->path));
}

static void add_wrong_name(const checked_model *m, diagnostics *found, error *e_owned,
                           source_place place)
{
  AUTO_ERROR error *e = e_owned;
  AUTO_FREE char *fix = NULL;
  if (asprintf(&fix, "write \"%s\", or leave name out", m->name) < 0) {
    fix = NULL;
    found->failed = true;
  }
  diagnostics_add(found, &(diagnostic){.severity = DIAGNOSTIC_ERROR,
                                       .code = error_get_code(e),
                                       .message = (char *)error_message(e),
                                       .path = (char *)"name",
                                       .place = place,
                                       .fix = fix});
}

error *checked_model_complete_groups(checked_model *m)
{
  static const config_preferred_group cpu = {.kind =
                                                 INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_CPU};
  return config_normalize_instance_groups(m->config, &cpu, 1, gpus_supported(m->gpus));
}

// Adds errors that a load reports before the rules, and continues as if there were none.
static error *complete(checked_model *m, diagnostics *found, bool *has_backend)
{
  const source_place name = source_map_find(&m->map, "name");
  error *e = config_set_defaults(m->config, m->name, &m->dir.root);
  *has_backend = e == NULL;
  if (e != NULL && error_get_code(e) == ERROR_UNAVAILABLE)
    return e;
  if (e != NULL) {
    diagnostics_add_error(found, e, "backend", source_map_find(&m->map, "backend"));
    RETURN_IF_ERROR(config_normalize(m->config));
  }
  e = m->whole ? config_check_name(m->config, m->name) : NULL;
  if (e != NULL)
    add_wrong_name(m, found, e, name);
  e = checked_model_complete_groups(m);
  if (e != NULL && error_get_code(e) != ERROR_UNAVAILABLE) {
    diagnostics_add_error(found, e, "instance_group", source_map_find(&m->map, "instance_group"));
    return NULL;
  }
  return e;
}

// A missing backend is reported already.
static bool is_of_backend(const diagnostic *d)
{
  return strcmp(d->path, "backend") == 0 || strcmp(d->path, "platform") == 0;
}

// Whether the text has a mistake in the field itself or below it.
static bool is_mistaken(const diagnostics *of_text, size_t count, const char *path)
{
  const size_t size = strlen(path);
  for (size_t i = 0; i < count; i++) {
    const char *other = of_text->items[i].path;
    if (size > 0 && strncmp(other, path, size) == 0 && strchr("[.", other[size]) != NULL)
      return true;
  }
  return false;
}

// Takes over the rules' findings; from `first` on they are config_diagnose's. In a text with
// mistakes a misspelt field is missing too, which need not be reported twice.
static void keep(checked_model *m, const diagnostics *rules, size_t first, bool has_backend)
{
  const bool mistaken = m->found.errors > 0;
  const size_t of_text = m->found.count;
  for (size_t i = 0; i < rules->count; i++) {
    const diagnostic *d = &rules->items[i];
    if ((mistaken && source_map_find_exact(&m->map, d->path).line == 0) ||
        is_mistaken(&m->found, of_text, d->path) ||
        (i >= first && !has_backend && is_of_backend(d)) || may_be_completed(m, d))
      continue;
    diagnostics_add(&m->found, d);
  }
  m->found.failed = m->found.failed || rules->failed;
}

// Adds a load's error about a parameter; returns only an error that ends the check.
static error *add_parameter_error(checked_model *m, const char *parameter, error *e_owned,
                                  diagnostics *found)
{
  AUTO_BUFFER buffer path = BUFFER_EMPTY;
  if (e_owned == NULL || error_get_code(e_owned) == ERROR_UNAVAILABLE)
    return e_owned;
  buffer_append_format(&path, "parameters[\"%s\"]", parameter);
  buffer_append_char(&path, '\0');
  const char *text = path.failed ? "" : path.data;
  diagnostics_add_error(found, e_owned, text, source_map_find(&m->map, text));
  return NULL;
}

// Parameters that the server itself reads when it loads the model.
static error *check_parameters(checked_model *m, diagnostics *found)
{
  bool is_set;
  version_rules rules;
  for (size_t s = 0; s < RULE_SECTIONS; s++)
    RETURN_IF_ERROR(add_parameter_error(
        m, rule_section_parameter((rule_section)s),
        version_rules_read_parameter(m->config, (rule_section)s, &rules, &is_set), found));
  return add_parameter_error(m, "isolate",
                             isolation_is_wanted(m->options, m->name, m->config, &is_set), found);
}

error *checked_model_diagnose(checked_model *m)
{
  bool has_backend;
  AUTO_DIAGNOSTICS diagnostics rules = DIAGNOSTICS_EMPTY;
  if (m->config == NULL || !m->is_read)
    return NULL;
  RETURN_IF_ERROR(complete(m, &rules, &has_backend));
  RETURN_IF_ERROR(check_parameters(m, &rules));
  size_t first = rules.count;
  config_diagnose(m->config, gpus_supported(m->gpus), &m->map, &rules);
  keep(m, &rules, first, has_backend);
  return NULL;
}

void checked_model_report(checked_model *m)
{
  diagnostics_sort(&m->found);
  for (size_t i = 0; i < m->found.count; i++) {
    const diagnostic *d = &m->found.items[i];
    const check_finding finding = {.severity = d->severity,
                                   .place = d->place,
                                   .source = &m->source,
                                   .field = d->path,
                                   .message = d->message,
                                   .fix = d->fix};
    add(m, &finding, m->config_file);
  }
  if (m->found.left_out > 0)
    checked_model_add(m, DIAGNOSTIC_ERROR, m->config_file, NULL, NULL,
                      "%zu more problems are left out", m->found.left_out);
  m->report->problems.failed = m->report->problems.failed || m->found.failed;
}
