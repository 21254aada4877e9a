// SPDX-License-Identifier: Apache-2.0
// A backend's settings, and the libraries of its models. Load threads.
#include "framework_parts.h"

#include "backend_config.h"
#include "backend_error.h"
#include "backend_log.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "gpu/device.h"
#include "nereid/nereid.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_MAX_BATCH_SIZE 4

// Only nereid has this function.
extern __typeof__(NEREID_BackendSetFramework) NEREID_BackendSetFramework __attribute__((weak));

struct framework_backend {
  TRITONBACKEND_Backend *backend;
  int64_t default_max_batch_size;
  void *settings;               // the definition's
  pthread_mutex_t lock;         // guards `libraries`
  framework_library *libraries; // one per path
  framework_library *found;     // NULL when none was found
  char *looked;                 // places searched, for the error of a model without a library
  bool prefers_gpu;             // `found` can use the GPUs of this machine
};

// NULL when absent.
static const char *text_of(const json_t *settings, const char *key)
{
  return json_string_value(json_object_get(settings, key));
}

// ---- libraries ----

static void close_library(framework_library *library)
{
  framework_definition.close(library);
  free(library->path);
  free(library);
}

static TRITONSERVER_Error *open_library(const framework_backend *self, const char *path,
                                        framework_library **result)
{
  const framework *f = &framework_definition.framework;
  framework_library *library = calloc(1, sizeof(*library));
  if (library == NULL)
    return backend_error_no_memory(f->name);
  library->settings = self->settings;
  library->path = strdup(path);
  uint64_t begun = clock_monotonic_ns();
  TRITONSERVER_Error *error =
      library->path == NULL ? backend_error_no_memory(f->name) : framework_definition.open(library);
  if (error != NULL) {
    close_library(library);
    return error;
  }
  uint64_t took = clock_monotonic_ns() - begun;
  BACKEND_LOG_INFO("%s: using %s %s from %s", f->backend, f->name, library->version, library->path);
  if (NEREID_BackendSetFramework != NULL)
    backend_error_log(
        NEREID_BackendSetFramework(self->backend, f->name, library->version, library->path, took),
        "tell the server of the framework");
  *result = library;
  return NULL;
}

// The library at `path`, opened at most once.
static TRITONSERVER_Error *library_at(framework_backend *self, const char *path,
                                      framework_library **library)
{
  LOCK_SCOPE(&self->lock);
  *library = self->libraries;
  while (*library != NULL && strcmp((*library)->path, path) != 0)
    *library = (*library)->next;
  if (*library != NULL)
    return NULL;
  BACKEND_RETURN_IF_ERROR(open_library(self, path, library));
  (*library)->next = self->libraries;
  self->libraries = *library;
  return NULL;
}

static bool try_library(void *context, const char *path, char **why_not)
{
  framework_backend *self = context;
  TRITONSERVER_Error *error = library_at(self, path, &self->found);
  if (error == NULL)
    return true;
  *why_not = strdup(TRITONSERVER_ErrorMessage(error));
  TRITONSERVER_ErrorDelete(error);
  return false;
}

static void find_library(framework_backend *self, const char *own_dir, const json_t *settings)
{
  const char *search = text_of(settings, "framework-search");
  framework_system system;
  framework_system_init(&system);
  system.strict = search != NULL && strcmp(search, "strict") == 0;
  const framework_search wanted = {
      .framework = &framework_definition.framework,
      .system = &system,
      .library = text_of(settings, "library"),
      .python_environment = text_of(settings, "python-environment"),
      .python_executable = text_of(settings, "python-executable"),
      .own_dir = own_dir,
      .open = try_library,
      .context = self,
  };
  framework_find(&wanted, &self->looked);
  if (self->looked != NULL && self->looked[0] != '\0')
    BACKEND_LOG_VERBOSE("%s: looked in %s", framework_definition.framework.backend, self->looked);
}

TRITONSERVER_Error *framework_backend_library(framework_backend *self, const json_t *model_config,
                                              framework_library **library)
{
  const framework *f = &framework_definition.framework;
  const char *parameter = framework_definition.library_parameter;
  const char *named = parameter == NULL ? NULL : backend_parameter(model_config, parameter);
  if (named != NULL)
    return library_at(self, named, library);
  *library = self->found;
  if (*library != NULL)
    return NULL;
  char *text AUTO_FREE = framework_not_found(f, self->looked);
  return text == NULL ? backend_error_no_memory(f->name) : backend_error_unavailable("%s", text);
}

bool framework_backend_prefers_gpu(const framework_backend *self)
{
  return self->prefers_gpu;
}

int64_t framework_backend_default_max_batch_size(const framework_backend *self)
{
  return self->default_max_batch_size;
}

// ---- GPUs ----

static bool can_use_gpus(const framework_library *library)
{
  const gpu_devices *devices = NULL;
  const char *why = NULL;
  if (framework_definition.check_gpu == NULL || library == NULL)
    return false;
  error_free(gpu_devices_find(&devices, &why));
  if (devices == NULL || devices->count == 0) // then nothing needs to be checked
    return false;
  TRITONSERVER_Error *error = framework_definition.check_gpu(library);
  if (error == NULL)
    return true;
  BACKEND_LOG_WARN("%s: models without an instance group run on the CPU, though there is a GPU: %s",
                   framework_definition.framework.backend, TRITONSERVER_ErrorMessage(error));
  TRITONSERVER_ErrorDelete(error);
  return false;
}

// ---- the backend ----

static TRITONSERVER_Error *read_settings(framework_backend *self, const json_t *given)
{
  char where[128];
  snprintf(where, sizeof(where), "--backend-config=%s", framework_definition.framework.backend);
  self->default_max_batch_size = DEFAULT_MAX_BATCH_SIZE;
  BACKEND_RETURN_IF_ERROR(backend_read_integer(where, "default-max-batch-size",
                                               text_of(given, "default-max-batch-size"), 0,
                                               INT32_MAX, &self->default_max_batch_size));
  return framework_definition.read_settings == NULL
             ? NULL
             : framework_definition.read_settings(given, &self->settings);
}

TRITONSERVER_Error *framework_backend_new(TRITONBACKEND_Backend *backend,
                                          framework_backend **result)
{
  TRITONBACKEND_ArtifactType artifact_type;
  const char *own_dir;
  json_t *settings;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_BackendArtifacts(backend, &artifact_type, &own_dir));
  BACKEND_RETURN_IF_ERROR(backend_settings(backend, &settings));
  framework_backend *made = calloc(1, sizeof(*made));
  TRITONSERVER_Error *error = NULL;
  if (made == NULL) {
    error = backend_error_no_memory("the backend");
  } else {
    made->backend = backend;
    pthread_mutex_init(&made->lock, NULL);
    error = read_settings(made, settings);
  }
  if (error == NULL) {
    find_library(made, own_dir, settings);
    made->prefers_gpu = can_use_gpus(made->found);
  }
  json_decref(settings);
  if (error != NULL) {
    framework_backend_free(made);
    return error;
  }
  *result = made;
  return NULL;
}

void framework_backend_free(framework_backend *self)
{
  if (self == NULL)
    return;
  while (self->libraries != NULL) {
    framework_library *first = self->libraries;
    self->libraries = first->next;
    close_library(first);
  }
  pthread_mutex_destroy(&self->lock);
  free(self->settings);
  free(self->looked);
  free(self);
}
