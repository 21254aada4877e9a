// SPDX-License-Identifier: Apache-2.0
// The server's options: defaults, lists, copies. Called by api/api_server_options.c while a program
// sets options, and by the server at its start.
#include "core/server_options.h"

#include "base/text.h"
#include "config/config.h"

#include <stdlib.h>
#include <string.h>

static setting *setting_find(const setting_list *list, const char *group, const char *name)
{
  for (size_t i = 0; i < list->count; i++) {
    if (strcmp(list->items[i].group, group) == 0 && strcmp(list->items[i].name, name) == 0)
      return &list->items[i];
  }
  return NULL;
}

static void setting_fini(setting *s)
{
  free(s->group);
  free(s->name);
  free(s->value);
}

error *setting_list_add(setting_list *list, const char *group, const char *name, const char *value)
{
  setting *grown = reallocarray(list->items, list->count + 1, sizeof(*grown));
  if (grown == NULL)
    return error_no_memory();
  list->items = grown;
  setting added = {strdup(group), strdup(name), strdup(value)};
  if (added.group == NULL || added.name == NULL || added.value == NULL) {
    setting_fini(&added);
    return error_no_memory();
  }
  list->items[list->count++] = added;
  return NULL;
}

error *setting_list_put(setting_list *list, const char *group, const char *name, const char *value)
{
  setting *known = setting_find(list, group, name);
  if (known == NULL)
    return setting_list_add(list, group, name, value);
  return text_replace(&known->value, value) ? NULL : error_no_memory();
}

const char *setting_list_get(const setting_list *list, const char *group, const char *name)
{
  const setting *known = setting_find(list, group, name);
  return known != NULL ? known->value : NULL;
}

void setting_list_fini(setting_list *list)
{
  for (size_t i = 0; i < list->count; i++)
    setting_fini(&list->items[i]);
  free(list->items);
}

void setting_list_print(const setting_list *list, const char *group, buffer *out)
{
  const char *separator = "{";
  for (size_t i = 0; i < list->count; i++) {
    if (strcmp(list->items[i].group, group) != 0)
      continue;
    buffer_append_text(out, separator);
    buffer_append_json_string(out, slice_of(list->items[i].name));
    buffer_append_char(out, ':');
    buffer_append_json_string(out, slice_of(list->items[i].value));
    separator = ",";
  }
  buffer_append_text(out, separator[0] == '{' ? "{}" : "}");
}

static error *setting_list_copy(setting_list *copy, const setting_list *list)
{
  for (size_t i = 0; i < list->count; i++) {
    const setting *s = &list->items[i];
    RETURN_IF_ERROR(setting_list_add(copy, s->group, s->name, s->value));
  }
  return NULL;
}

static error *string_list_copy(string_list *copy, const string_list *list)
{
  for (size_t i = 0; i < list->count; i++) {
    if (!string_list_add(copy, list->items[i]))
      return error_no_memory();
  }
  return NULL;
}

static error *lists_copy(server_options *copy, const server_options *options)
{
  RETURN_IF_ERROR(string_list_copy(&copy->model_repositories, &options->model_repositories));
  RETURN_IF_ERROR(string_list_copy(&copy->startup_models, &options->startup_models));
  RETURN_IF_ERROR(string_list_copy(&copy->link_dirs, &options->link_dirs));
  RETURN_IF_ERROR(setting_list_copy(&copy->metrics_settings, &options->metrics_settings));
  RETURN_IF_ERROR(setting_list_copy(&copy->backend_settings, &options->backend_settings));
  RETURN_IF_ERROR(setting_list_copy(&copy->cache_configs, &options->cache_configs));
  RETURN_IF_ERROR(setting_list_copy(&copy->gpu_sizes, &options->gpu_sizes));
  RETURN_IF_ERROR(
      setting_list_copy(&copy->rate_limiter_resources, &options->rate_limiter_resources));
  return setting_list_copy(&copy->host_policies, &options->host_policies);
}

error *server_options_copy(server_options *copy, const server_options *options)
{
  *copy = *options;
  copy->server_id = strdup(options->server_id);
  copy->model_config_name = strdup(options->model_config_name);
  copy->backend_directory = strdup(options->backend_directory);
  copy->agent_directory = strdup(options->agent_directory);
  copy->cache_directory = strdup(options->cache_directory);
  copy->model_repositories = copy->startup_models = copy->link_dirs = (string_list){0};
  copy->metrics_settings = copy->backend_settings = copy->host_policies = copy->cache_configs =
      copy->rate_limiter_resources = copy->gpu_sizes = (setting_list){0};
  bool complete = copy->server_id != NULL && copy->model_config_name != NULL &&
                  copy->backend_directory != NULL && copy->agent_directory != NULL &&
                  copy->cache_directory != NULL;
  error *failure = complete ? lists_copy(copy, options) : error_no_memory();
  if (failure != NULL)
    server_options_fini(copy);
  return failure;
}

error *server_options_init(server_options *options)
{
  const server_options defaults = {
      .server_id = (char *)"triton",
      .model_config_name = (char *)"",
      .backend_directory = (char *)"/opt/tritonserver/backends",
      .agent_directory = (char *)"/opt/tritonserver/repoagents",
      .cache_directory = (char *)"/opt/tritonserver/caches",
      .model_control_mode = TRITONSERVER_MODEL_CONTROL_POLL,
      .strict_model_config = true,
      .model_load_thread_count = 4,
      .exit_on_error = true,
      .strict_readiness = true,
      .exit_timeout_seconds = 30,
      .rate_limiter_mode = TRITONSERVER_RATE_LIMIT_OFF,
      .pinned_memory_pool_bytes = UINT64_C(256) << 20,
      .min_compute_capability = MIN_COMPUTE_CAPABILITY,
      .enable_peer_access = true,
      .metrics = true,
      .cpu_metrics = true,
      .gpu_metrics = true,
      .metrics_interval_ms = 2000,
  };
  return server_options_copy(options, &defaults);
}

void server_options_fini(server_options *options)
{
  free(options->server_id);
  free(options->model_config_name);
  free(options->backend_directory);
  free(options->agent_directory);
  free(options->cache_directory);
  string_list_fini(&options->model_repositories);
  string_list_fini(&options->startup_models);
  string_list_fini(&options->link_dirs);
  setting_list_fini(&options->metrics_settings);
  setting_list_fini(&options->backend_settings);
  setting_list_fini(&options->host_policies);
  setting_list_fini(&options->cache_configs);
  setting_list_fini(&options->gpu_sizes);
  setting_list_fini(&options->rate_limiter_resources);
}
