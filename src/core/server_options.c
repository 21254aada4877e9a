// The server's options: defaults, lists, copying. Called by api/server_options.c while a program
// sets options, and by the server when it starts.
#include "core/server_options.h"

#include "base/checked.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

// Makes room for one more item.
static bool grow(void **items, size_t count, size_t *capacity, size_t item_size)
{
  if (count < *capacity)
    return true;
  size_t wanted = *capacity == 0 ? 8 : *capacity;
  if (*capacity != 0 && !checked_multiply_size(*capacity, 2, &wanted))
    return false;
  void *grown = reallocarray(*items, wanted, item_size);
  if (grown == NULL)
    return false;
  *items = grown;
  *capacity = wanted;
  return true;
}

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
  if (!grow((void **)&list->items, list->count, &list->capacity, sizeof(list->items[0])))
    return error_no_memory();
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

// The texts of `options`, one row each, so that copying and releasing cannot forget one.
#define TEXTS(X)                                                                                   \
  X(server_id, "triton")                                                                           \
  X(model_config_name, "")                                                                         \
  X(backend_directory, "/opt/tritonserver/backends")

static error *texts_copy(server_options *copy, const server_options *options)
{
#define COPY(field, initial) copy->field = strdup(options->field);
  TEXTS(COPY)
#undef COPY
  bool complete = true;
#define CHECK(field, initial) complete = complete && copy->field != NULL;
  TEXTS(CHECK)
#undef CHECK
  return complete ? NULL : error_no_memory();
}

static error *lists_copy(server_options *copy, const server_options *options)
{
  RETURN_IF_ERROR(string_list_copy(&copy->model_repositories, &options->model_repositories));
  RETURN_IF_ERROR(string_list_copy(&copy->startup_models, &options->startup_models));
  RETURN_IF_ERROR(string_list_copy(&copy->link_dirs, &options->link_dirs));
  RETURN_IF_ERROR(setting_list_copy(&copy->metrics_settings, &options->metrics_settings));
  RETURN_IF_ERROR(setting_list_copy(&copy->backend_settings, &options->backend_settings));
  return setting_list_copy(&copy->host_policies, &options->host_policies);
}

error *server_options_copy(server_options *copy, const server_options *options)
{
  *copy = *options;
#define CLEAR(field, initial) copy->field = NULL;
  TEXTS(CLEAR)
#undef CLEAR
  copy->model_repositories = (string_list){0};
  copy->startup_models = (string_list){0};
  copy->link_dirs = (string_list){0};
  copy->metrics_settings = (setting_list){0};
  copy->backend_settings = (setting_list){0};
  copy->host_policies = (setting_list){0};
  error *failure = texts_copy(copy, options);
  if (failure == NULL)
    failure = lists_copy(copy, options);
  if (failure != NULL)
    server_options_fini(copy);
  return failure;
}

error *server_options_init(server_options *options)
{
  const server_options defaults = {
#define INITIAL(field, initial) .field = (char *)(initial),
      TEXTS(INITIAL)
#undef INITIAL
          .model_control_mode = TRITONSERVER_MODEL_CONTROL_POLL,
      .strict_model_config = true,
      .model_load_thread_count = 4,
      .exit_on_error = true,
      .strict_readiness = true,
      .exit_timeout_seconds = 30,
      .rate_limiter_mode = TRITONSERVER_RATE_LIMIT_OFF,
      .pinned_memory_pool_bytes = UINT64_C(256) << 20,
      .metrics = true,
      .cpu_metrics = true,
      .metrics_interval_ms = 2000,
  };
  return server_options_copy(options, &defaults);
}

void server_options_fini(server_options *options)
{
#define RELEASE(field, initial) free(options->field);
  TEXTS(RELEASE)
#undef RELEASE
  string_list_fini(&options->model_repositories);
  string_list_fini(&options->startup_models);
  string_list_fini(&options->link_dirs);
  setting_list_fini(&options->metrics_settings);
  setting_list_fini(&options->backend_settings);
  setting_list_fini(&options->host_policies);
}
