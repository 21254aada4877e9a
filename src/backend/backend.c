// SPDX-License-Identifier: Apache-2.0
// Loading of backend libraries. A library is opened and initialised under the registry's lock: of
// two models that need it at the same moment the second waits, and gets the same backend.
#include "backend/backend.h"

#include "backend/library.h"
#include "base/cleanup.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

void backend_registry_init(backend_registry *registry,
                           struct TRITONBACKEND_MemoryManager *memory_manager)
{
  *registry = (backend_registry){.memory_manager = memory_manager};
  pthread_mutex_init(&registry->lock, NULL);
}

static void free_backend(backend *b)
{
  for (size_t i = 0; i < b->attribute.group_count; i++)
    free((void *)b->attribute.groups[i].gpus);
  free(b->attribute.groups);
  library_close(b->handle);
  message_free(b->config);
  free(b->name);
  free(b->library);
  free(b->dir);
  free(b);
}

// An initialized library is finalized before it is closed: it may have threads.
static void end_backend(backend *b)
{
  if (b->initialized && b->functions.finalize != NULL) {
    AUTO_ERROR error *e = (error *)b->functions.finalize(b);
    if (e != NULL)
      log_error("failed finalizing backend '%s': %s", b->name, error_message(e));
  }
  free_backend(b);
}

void backend_registry_fini(backend_registry *registry)
{
  size_t position = 0;
  string_map_entry *entry;
  while ((entry = string_map_walk(&registry->backends, &position)) != NULL)
    end_backend(entry->value);
  string_map_fini(&registry->backends);
  pthread_mutex_destroy(&registry->lock);
}

static error *find_functions(backend *b)
{
  backend_functions *f = &b->functions;
  const struct {
    const char *symbol;
    void *function;
  } table[] = {
      {"TRITONBACKEND_Initialize", &f->initialize},
      {"TRITONBACKEND_Finalize", &f->finalize},
      {"TRITONBACKEND_GetBackendAttribute", &f->get_attribute},
      {"TRITONBACKEND_ModelInitialize", &f->model_initialize},
      {"TRITONBACKEND_ModelFinalize", &f->model_finalize},
      {"TRITONBACKEND_ModelInstanceInitialize", &f->model_instance_initialize},
      {"TRITONBACKEND_ModelInstanceFinalize", &f->model_instance_finalize},
      {"TRITONBACKEND_ModelInstanceExecute", &f->model_instance_execute},
      {"TRITONBACKEND_ModelInstanceReady", &f->model_instance_ready},
      {"NEREID_ModelInstanceExecuteBegin", &f->model_instance_execute_begin},
      {"NEREID_ModelInstanceExecuteEnd", &f->model_instance_execute_end},
      {"NEREID_ModelInstanceAskReady", &f->model_instance_ask_ready},
      {"NEREID_ModelInstanceMaxExecutions", &f->model_instance_max_executions},
      {"NEREID_ModelInstanceFault", &f->model_instance_fault},
      {"NEREID_ModelInstanceMeasureMemory", &f->model_instance_measure_memory},
      {"NEREID_ModelInstanceLife", &f->model_instance_life},
      {"NEREID_ModelCancelled", &f->model_cancelled},
      {"NEREID_BackendAvoidsGpus", &f->avoids_gpus},
  };
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
    library_find(b->handle, table[i].symbol, table[i].function);
  void *promise;
  library_find(b->handle, "NEREID_BackendComputes", &promise);
  b->computes = promise != NULL;
  library_find(b->handle, "NEREID_BackendFills", &promise);
  b->fills = promise != NULL;
  library_find(b->handle, "NEREID_BackendReadsOnHost", &promise);
  b->reads_on_host = promise != NULL;
  if (f->model_instance_execute == NULL)
    return error_new(ERROR_NOT_FOUND,
                     "'%s' is not a backend: it has no TRITONBACKEND_ModelInstanceExecute",
                     b->library);
  return NULL;
}

static error *open_library(backend *b)
{
  RETURN_IF_ERROR(library_open(b->library, &b->handle));
  return find_functions(b);
}

// After success TRITONBACKEND_Finalize must be called.
static error *initialize_backend(backend *b)
{
  if (b->functions.initialize != NULL)
    RETURN_IF_ERROR((error *)b->functions.initialize(b));
  b->initialized = true;
  return NULL;
}

static error *read_attribute(backend *b)
{
  if (b->functions.get_attribute != NULL)
    RETURN_IF_ERROR((error *)b->functions.get_attribute(b, &b->attribute));
  b->attribute.avoids_gpus = b->functions.avoids_gpus != NULL && b->functions.avoids_gpus(b);
  return NULL;
}

static error *load_backend(const backend_registry *registry, const backend_location *location,
                           const char *config_json, backend **result)
{
  backend *b = calloc(1, sizeof(*b));
  error *e = b == NULL ? error_no_memory() : message_new(slice_of(config_json), &b->config);
  if (e == NULL) {
    b->name = strdup(location->name);
    b->library = strdup(location->library);
    b->dir = strdup(location->dir);
    b->memory_manager = registry->memory_manager;
    if (b->name == NULL || b->library == NULL || b->dir == NULL)
      e = error_no_memory();
  }
  if (e == NULL)
    e = open_library(b);
  if (e == NULL)
    e = initialize_backend(b);
  if (e == NULL)
    e = read_attribute(b);
  if (e != NULL) {
    if (b != NULL)
      end_backend(b);
    return e;
  }
  *result = b;
  return NULL;
}

error *backend_registry_get(backend_registry *registry, const backend_location *location,
                            const char *config_json, backend **b)
{
  LOCK_SCOPE(&registry->lock);
  *b = string_map_get(&registry->backends, slice_of(location->key));
  if (*b != NULL)
    return NULL;
  RETURN_IF_ERROR(load_backend(registry, location, config_json, b));
  if (string_map_put(&registry->backends, slice_of(location->key), *b))
    return NULL;
  end_backend(*b);
  return error_no_memory();
}

void backend_registry_visit(backend_registry *registry, backend_visitor *visit, void *context)
{
  LOCK_SCOPE(&registry->lock);
  size_t position = 0;
  const string_map_entry *entry;
  while ((entry = string_map_walk(&registry->backends, &position)) != NULL)
    visit(context, entry->value);
}

error *backend_attribute_add_group(backend_attribute *attribute,
                                   Inference__ModelInstanceGroup__Kind kind, uint64_t count,
                                   const uint64_t *devices, uint64_t device_count)
{
  config_preferred_group *groups =
      reallocarray(attribute->groups, attribute->group_count + 1, sizeof(*groups));
  if (groups == NULL)
    return error_no_memory();
  attribute->groups = groups;
  int32_t *gpus = calloc(device_count + 1, sizeof(*gpus));
  if (gpus == NULL)
    return error_no_memory();
  for (uint64_t i = 0; i < device_count; i++)
    gpus[i] = (int32_t)devices[i];
  groups[attribute->group_count++] = (config_preferred_group){kind, count, gpus, device_count};
  return NULL;
}
