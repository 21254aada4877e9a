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

error *device_size_list_put(device_size_list *list, int device, uint64_t byte_size)
{
  for (size_t i = 0; i < list->count; i++) {
    if (list->items[i].device == device) {
      list->items[i].byte_size = byte_size;
      return NULL;
    }
  }
  if (!grow((void **)&list->items, list->count, &list->capacity, sizeof(list->items[0])))
    return error_no_memory();
  list->items[list->count++] = (device_size){device, byte_size};
  return NULL;
}

static error *device_size_list_copy(device_size_list *copy, const device_size_list *list)
{
  for (size_t i = 0; i < list->count; i++)
    RETURN_IF_ERROR(device_size_list_put(copy, list->items[i].device, list->items[i].byte_size));
  return NULL;
}

error *rate_limiter_resource_list_add(rate_limiter_resource_list *list, const char *name,
                                      size_t count, int device)
{
  for (size_t i = 0; i < list->count; i++) {
    rate_limiter_resource *known = &list->items[i];
    if (known->device == device && strcmp(known->name, name) == 0) {
      if (count < known->count)
        known->count = count;
      return NULL;
    }
  }
  if (!grow((void **)&list->items, list->count, &list->capacity, sizeof(list->items[0])))
    return error_no_memory();
  rate_limiter_resource added = {strdup(name), count, device};
  if (added.name == NULL)
    return error_no_memory();
  list->items[list->count++] = added;
  return NULL;
}

static void rate_limiter_resource_list_fini(rate_limiter_resource_list *list)
{
  for (size_t i = 0; i < list->count; i++)
    free(list->items[i].name);
  free(list->items);
}

static error *rate_limiter_resource_list_copy(rate_limiter_resource_list *copy,
                                              const rate_limiter_resource_list *list)
{
  for (size_t i = 0; i < list->count; i++) {
    const rate_limiter_resource *r = &list->items[i];
    RETURN_IF_ERROR(rate_limiter_resource_list_add(copy, r->name, r->count, r->device));
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
  X(backend_directory, "/opt/tritonserver/backends")                                               \
  X(repository_agent_directory, "/opt/tritonserver/repoagents")                                    \
  X(cache_directory, "/opt/tritonserver/caches")

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
  RETURN_IF_ERROR(rate_limiter_resource_list_copy(&copy->rate_limiter_resources,
                                                  &options->rate_limiter_resources));
  RETURN_IF_ERROR(device_size_list_copy(&copy->cuda_memory_pools, &options->cuda_memory_pools));
  RETURN_IF_ERROR(device_size_list_copy(&copy->cuda_virtual_address_sizes,
                                        &options->cuda_virtual_address_sizes));
  RETURN_IF_ERROR(setting_list_copy(&copy->metrics_settings, &options->metrics_settings));
  RETURN_IF_ERROR(setting_list_copy(&copy->backend_settings, &options->backend_settings));
  RETURN_IF_ERROR(setting_list_copy(&copy->host_policies, &options->host_policies));
  return setting_list_copy(&copy->cache_configs, &options->cache_configs);
}

error *server_options_copy(server_options *copy, const server_options *options)
{
  *copy = *options;
#define CLEAR(field, initial) copy->field = NULL;
  TEXTS(CLEAR)
#undef CLEAR
  copy->model_repositories = (string_list){0};
  copy->startup_models = (string_list){0};
  copy->rate_limiter_resources = (rate_limiter_resource_list){0};
  copy->cuda_memory_pools = (device_size_list){0};
  copy->cuda_virtual_address_sizes = (device_size_list){0};
  copy->metrics_settings = (setting_list){0};
  copy->backend_settings = (setting_list){0};
  copy->host_policies = (setting_list){0};
  copy->cache_configs = (setting_list){0};
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
      .gpu_metrics = true,
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
  rate_limiter_resource_list_fini(&options->rate_limiter_resources);
  free(options->cuda_memory_pools.items);
  free(options->cuda_virtual_address_sizes.items);
  setting_list_fini(&options->metrics_settings);
  setting_list_fini(&options->backend_settings);
  setting_list_fini(&options->host_policies);
  setting_list_fini(&options->cache_configs);
}
