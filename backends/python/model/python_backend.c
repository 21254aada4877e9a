// Reads --backend-config, finds the worker's files, and makes what all models share.
#include "model/python_backend.h"

#include "backend_config.h"
#include "backend_error.h"
#include "backend_log.h"
#include "base/text.h"

#include <assert.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

// ---- settings (--backend-config=python,key=value)

typedef struct python_setting {
  const char *key;
  int64_t least;
  const char *too_small; // Triton's text
} python_setting;

// Sizes of Triton's shared memory and queues, which are not needed here.
static const python_setting UNNEEDED[] = {
    {"shm-growth-byte-size", 1, "shm-growth-byte-size can't be smaller than or equal to zero."},
    {"shm-default-byte-size", 1 << 20, "shm-default-byte-size can't be smaller than 4 MiBs"},
    {"thread-pool-size", 1, "thread-pool-size can't be less than 1."},
    {"shm_message_queue_size", INT64_MIN, ""},
};

static const python_setting TIMEOUT = {
    "stub-timeout-seconds", 1, "stub-timeout-seconds can't be smaller than or equal to zero."};

#define MAX_ENVIRONMENT_BYTES   (INT64_C(8) << 30)
#define MAX_ENVIRONMENT_ENTRIES 1000000

// Not Triton's. Executions that take longer have nothing to gain.
static const python_setting HAND_AHEAD = {"hand-ahead-us", 0,
                                          "hand-ahead-us can't be smaller than zero."};
#define HAND_AHEAD_US 200

static const char PREFIX[] = "shm-region-prefix-name";

// Keys that are not for this backend to warn of: its others, and those that every backend is given.
static const char *const OTHERS[] = {
    "python-executable", "environment-cache",      "environment-most-bytes", "auto-complete-config",
    "backend-directory", "min-compute-capability", "default-max-batch-size", "framework-search"};

// As Triton reads a number: what follows its digits is passed over.
static TRITONSERVER_Error *read_setting(const json_t *settings, const python_setting *setting,
                                        int64_t *value)
{
  const char *text = json_string_value(json_object_get(settings, setting->key));
  const char *rest;
  if (text == NULL)
    return NULL;
  if (!text_begins_int64(text, value, &rest))
    return backend_error(TRITONSERVER_ERROR_INVALID_ARG, "%s: '%s' is not an integer", setting->key,
                         text);
  if (*value < setting->least)
    return backend_error(TRITONSERVER_ERROR_INVALID_ARG, "%s", setting->too_small);
  return NULL;
}

static TRITONSERVER_Error *check_unneeded(const json_t *settings)
{
  for (size_t i = 0; i < sizeof UNNEEDED / sizeof UNNEEDED[0]; i++) {
    int64_t ignored;
    BACKEND_RETURN_IF_ERROR(read_setting(settings, &UNNEEDED[i], &ignored));
  }
  const char *prefix = json_string_value(json_object_get(settings, PREFIX));
  if (prefix != NULL && *prefix == '\0')
    return backend_error(TRITONSERVER_ERROR_INVALID_ARG,
                         "shm-region-prefix-name must at least contain one character.");
  return NULL;
}

static bool is_unneeded(const char *key)
{
  for (size_t i = 0; i < sizeof UNNEEDED / sizeof UNNEEDED[0]; i++)
    if (strcmp(key, UNNEEDED[i].key) == 0)
      return true;
  return strcmp(key, PREFIX) == 0;
}

static bool is_known(const char *key)
{
  for (size_t i = 0; i < sizeof OTHERS / sizeof OTHERS[0]; i++)
    if (strcmp(key, OTHERS[i]) == 0)
      return true;
  return strcmp(key, TIMEOUT.key) == 0 || strcmp(key, HAND_AHEAD.key) == 0 ||
         worker_sandbox_has_setting(key);
}

static void tell_of_keys(const python_backend *self, json_t *settings)
{
  const char *key;
  json_t *value;
  json_object_foreach(settings, key, value)
  {
    if (is_unneeded(key))
      BACKEND_LOG_INFO("backend '%s': setting %s is not needed: memory is shared without names and "
                       "grows on demand",
                       self->name, key);
    else if (!is_known(key))
      BACKEND_LOG_WARN("backend '%s': unknown setting %s", self->name, key);
  }
}

static TRITONSERVER_Error *read_environments(python_backend *self, const json_t *settings)
{
  int64_t most = MAX_ENVIRONMENT_BYTES;
  BACKEND_RETURN_IF_ERROR(backend_read_integer(
      "setting", "environment-most-bytes",
      json_string_value(json_object_get(settings, "environment-most-bytes")), 1, INT64_MAX, &most));
  const unpack_limits limits = {.bytes = (uint64_t)most, .entries = MAX_ENVIRONMENT_ENTRIES};
  return environment_cache_new(json_string_value(json_object_get(settings, "environment-cache")),
                               &limits, &self->environments);
}

static TRITONSERVER_Error *read_settings(python_backend *self, json_t *settings)
{
  self->timeout_s = 30;
  BACKEND_RETURN_IF_ERROR(read_setting(settings, &TIMEOUT, &self->timeout_s));
  self->hand_ahead_us = HAND_AHEAD_US;
  BACKEND_RETURN_IF_ERROR(read_setting(settings, &HAND_AHEAD, &self->hand_ahead_us));
  BACKEND_RETURN_IF_ERROR(check_unneeded(settings));
  const char *interpreter = json_string_value(json_object_get(settings, "python-executable"));
  if (interpreter != NULL && (self->interpreter = strdup(interpreter)) == NULL)
    return backend_error_no_memory("the backend");
  BACKEND_RETURN_IF_ERROR(worker_sandbox_init(&self->sandbox, settings));
  BACKEND_RETURN_IF_ERROR(read_environments(self, settings));
  tell_of_keys(self, settings);
  BACKEND_LOG_INFO("Python workers of backend '%s' run in sandbox %s", self->name,
                   self->sandbox.strict ? "strict" : "standard");
  return NULL;
}

// ---- places

// The directory of this library, whichever backend it was loaded for.
static TRITONSERVER_Error *find_dir(python_backend *self)
{
  static const char here;
  Dl_info library;
  char *path = dladdr(&here, &library) == 0 ? NULL : realpath(library.dli_fname, NULL);
  if (path == NULL)
    return backend_error(TRITONSERVER_ERROR_INTERNAL, "cannot find the Python backend's directory");
  *strrchr(path, '/') = '\0';
  self->dir = path;
  return NULL;
}

// A backend written in Python is this library with another directory, in which there is a model.py.
static TRITONSERVER_Error *find_model_dir(python_backend *self, TRITONBACKEND_Backend *backend)
{
  TRITONBACKEND_ArtifactType type;
  const char *location;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_BackendArtifacts(backend, &type, &location));
  char *resolved = realpath(location, NULL);
  if (resolved != NULL && strcmp(resolved, self->dir) != 0) {
    self->model_dir = resolved;
    return NULL;
  }
  free(resolved);
  return NULL;
}

static TRITONSERVER_Error *set_up(python_backend *self, TRITONBACKEND_Backend *backend)
{
  const char *name;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_BackendName(backend, &name));
  self->name = strdup(name);
  if (self->name == NULL)
    return backend_error_no_memory("the backend");
  BACKEND_RETURN_IF_ERROR(find_dir(self));
  BACKEND_RETURN_IF_ERROR(find_model_dir(self, backend));
  json_t *settings;
  BACKEND_RETURN_IF_ERROR(backend_settings(backend, &settings));
  TRITONSERVER_Error *error = read_settings(self, settings);
  json_decref(settings);
  return error;
}

TRITONSERVER_Error *python_backend_new(TRITONBACKEND_Backend *backend, python_backend **result)
{
  python_backend *self = calloc(1, sizeof *self);
  if (self == NULL)
    return backend_error_no_memory("the backend");
  pthread_mutex_init(&self->lock, NULL);
  pthread_cond_init(&self->unused, NULL);
  TRITONSERVER_Error *error = set_up(self, backend);
  if (error != NULL) {
    python_backend_free(self);
    return error;
  }
  *result = self;
  return NULL;
}

void python_backend_ref(python_backend *self)
{
  pthread_mutex_lock(&self->lock);
  self->users++;
  pthread_mutex_unlock(&self->lock);
}

void python_backend_unref(python_backend *self)
{
  pthread_mutex_lock(&self->lock);
  assert(self->users > 0);
  if (--self->users == 0)
    pthread_cond_broadcast(&self->unused);
  pthread_mutex_unlock(&self->lock);
}

void python_backend_free(python_backend *self)
{
  if (self == NULL)
    return;
  pthread_mutex_lock(&self->lock);
  while (self->users > 0)
    pthread_cond_wait(&self->unused, &self->lock);
  pthread_mutex_unlock(&self->lock);
  pthread_cond_destroy(&self->unused);
  pthread_mutex_destroy(&self->lock);
  environment_cache_free(self->environments);
  worker_sandbox_fini(&self->sandbox);
  free(self->interpreter);
  free(self->model_dir);
  free(self->dir);
  free(self->name);
  free(self);
}
