// SPDX-License-Identifier: Apache-2.0
// The parameter `isolate`, and the description of a model for its own process.
#include "core/isolation.h"

#include "base/log.h"
#include "core/model.h"

#include <inttypes.h>

void backend_choice_fini(backend_choice *choice)
{
  free(choice->name);
  free(choice->library);
  free(choice->dir);
  free(choice->key);
  free(choice->settings);
  *choice = (backend_choice){0};
}

error *isolation_is_wanted(const server_options *options, const char *name,
                           const Inference__ModelConfig *config, bool *wanted)
{
  const char *value = config_parameter(config, "isolate");
  if (value == NULL)
    value = setting_list_get(&options->backend_settings, config->backend, "isolate");
  if (value == NULL)
    value = setting_list_get(&options->backend_settings, "", "isolate");
  *wanted = value != NULL && strcmp(value, "process") == 0;
  if (value == NULL || *wanted || strcmp(value, "none") == 0)
    return NULL;
  return error_new(ERROR_INVALID_ARG,
                   "model '%s': isolate: invalid value '%s', expected process or none", name,
                   value);
}

// The part of a model that works only with the server's own objects; NULL: there is none.
static const char *what_stays_here(const Inference__ModelConfig *config)
{
  const Inference__ModelSequenceBatching *batching =
      config->scheduling_choice_case == INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_SEQUENCE_BATCHING
          ? config->sequence_batching
          : NULL;
  if (batching == NULL)
    return NULL;
  if (batching->n_state > 0)
    return "states of sequences";
  return batching->iterative_sequence ? "iterative sequences" : NULL;
}

error *isolation_check(const char *name, const Inference__ModelConfig *config, bool *wanted)
{
  const char *cannot = *wanted ? what_stays_here(config) : NULL;
  if (cannot == NULL)
    return NULL;
  *wanted = false;
  if (config_parameter(config, "isolate") != NULL)
    return error_new(ERROR_INVALID_ARG,
                     "model '%s': isolate: a model with %s cannot have a process of its own", name,
                     cannot);
  log_info("model '%s' has %s: it has no process of its own", name, cannot);
  return NULL;
}

static void add_text(buffer *json, const char *key, const char *text)
{
  buffer_append_format(json, ",\"%s\":", key);
  buffer_append_json_bytes(json, slice_of(text));
}

static void add_settings(buffer *json, const char *key, const setting_list *list)
{
  buffer_append_format(json, ",\"%s\":[", key);
  for (size_t i = 0; i < list->count; i++) {
    const setting *s = &list->items[i];
    const char *const parts[] = {s->group, s->name, s->value};
    for (size_t p = 0; p < 3; p++) {
      buffer_append_text(json, p > 0 ? "," : i > 0 ? ",[" : "[");
      buffer_append_json_bytes(json, slice_of(parts[p]));
    }
    buffer_append_char(json, ']');
  }
  buffer_append_char(json, ']');
}

static void add_links(buffer *json, const file_policy *links)
{
  buffer_append_format(json, ",\"links\":%d,\"link_roots\":[", (int)links->links);
  for (size_t i = 0; i < links->roots.count; i++) {
    buffer_append_text(json, i > 0 ? "," : "");
    buffer_append_json_bytes(json, slice_of(links->roots.items[i]));
  }
  buffer_append_char(json, ']');
}

static void add_log(buffer *json)
{
  buffer_append_format(json, ",\"log\":[%d,%d,%d],\"verbose\":%" PRIu32,
                       log_is_enabled(LOG_LEVEL_INFO), log_is_enabled(LOG_LEVEL_WARNING),
                       log_is_enabled(LOG_LEVEL_ERROR), log_verbose_level());
}

error *isolation_describe(const model *m, buffer *json)
{
  const server_options *options = m->environment.options;
  const backend_choice *real = &m->isolated;
  if (real->library == NULL)
    return error_new(ERROR_INVALID_ARG, "model '%s' is not to be in a process of its own", m->name);
  buffer_append_format(json, "{\"version\":%" PRId64, m->target.version);
  add_text(json, "id", m->id);
  add_text(json, "name", m->name);
  add_text(json, "repository", m->repository);
  add_text(json, "folder", m->folder);
  add_text(json, "dir", m->dir);
  add_links(json, m->links);
  add_text(json, "backend", real->name);
  add_text(json, "library", real->library);
  add_text(json, "backend_dir", real->dir);
  add_text(json, "backend_key", real->key);
  add_text(json, "backend_config", real->settings);
  add_text(json, "backend_directory", options->backend_directory);
  buffer_append_format(json, ",\"strict\":%s", options->strict_model_config ? "true" : "false");
  add_settings(json, "backend_settings", &options->backend_settings);
  add_settings(json, "host_policies", &options->host_policies);
  add_log(json);
  buffer_append_char(json, '}');
  return json->failed ? error_no_memory() : NULL;
}
