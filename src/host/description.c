// SPDX-License-Identifier: Apache-2.0
// Reads a model's description, which the server writes for the model's own process.
#include "host/description.h"

#include "base/log.h"

static const char *text_of(const json_t *object, const char *key)
{
  const char *text = json_string_value(json_object_get(object, key));
  return text != NULL ? text : "";
}

static error *replace(char **member, const char *text)
{
  free(*member);
  *member = strdup(text);
  return *member == NULL ? error_no_memory() : NULL;
}

static error *read_settings(const json_t *rows, setting_list *list)
{
  for (size_t i = 0; i < json_array_size(rows); i++) {
    const json_t *row = json_array_get(rows, i);
    const char *parts[3];
    for (size_t p = 0; p < 3; p++)
      parts[p] = json_string_value(json_array_get(row, p));
    if (parts[0] == NULL || parts[1] == NULL || parts[2] == NULL)
      return error_new(ERROR_INTERNAL, "a model's description has a setting of another form");
    RETURN_IF_ERROR(setting_list_add(list, parts[0], parts[1], parts[2]));
  }
  return NULL;
}

static error *read_links(const json_t *json, file_policy *links)
{
  const json_t *roots = json_object_get(json, "link_roots");
  links->links = (file_links)json_integer_value(json_object_get(json, "links"));
  for (size_t i = 0; i < json_array_size(roots); i++) {
    const char *root = json_string_value(json_array_get(roots, i));
    if (!string_list_add(&links->roots, root != NULL ? root : ""))
      return error_no_memory();
  }
  return NULL;
}

static void set_log(const json_t *json)
{
  const json_t *levels = json_object_get(json, "log");
  for (size_t i = 0; i < json_array_size(levels); i++)
    log_enable((log_level)i, json_integer_value(json_array_get(levels, i)) != 0);
  log_set_verbose((uint32_t)json_integer_value(json_object_get(json, "verbose")));
}

error *host_description_read(host_description *d, const char *text)
{
  *d = (host_description){0};
  RETURN_IF_ERROR(server_options_init(&d->options));
  d->json = json_loadb(text, strlen(text), 0, NULL);
  if (d->json == NULL)
    return error_new(ERROR_INTERNAL, "a model's description cannot be read");
  const json_t *json = d->json;
  set_log(json);
  d->options.strict_model_config = json_is_true(json_object_get(json, "strict"));
  d->options.metrics = false;
  RETURN_IF_ERROR(replace(&d->options.backend_directory, text_of(json, "backend_directory")));
  RETURN_IF_ERROR(
      read_settings(json_object_get(json, "backend_settings"), &d->options.backend_settings));
  RETURN_IF_ERROR(read_settings(json_object_get(json, "host_policies"), &d->options.host_policies));
  RETURN_IF_ERROR(read_links(json, &d->links));
  d->backend = (backend_choice){
      .name = (char *)text_of(json, "backend"),
      .library = (char *)text_of(json, "library"),
      .dir = (char *)text_of(json, "backend_dir"),
      .key = (char *)text_of(json, "backend_key"),
      .settings = (char *)text_of(json, "backend_config"),
  };
  return NULL;
}

void host_description_fini(host_description *d)
{
  json_decref(d->json);
  file_policy_fini(&d->links);
  server_options_fini(&d->options);
}

error *host_description_source(const host_description *d, const char *config, model_source *source)
{
  *source = (model_source){
      .id = text_of(d->json, "id"),
      .name = text_of(d->json, "name"),
      .version = json_integer_value(json_object_get(d->json, "version")),
      .repository = text_of(d->json, "repository"),
      .folder = text_of(d->json, "folder"),
      .dir = text_of(d->json, "dir"),
      .links = &d->links,
      .backend = &d->backend,
  };
  return config_read_json(slice_of(config), &source->config_owned);
}
