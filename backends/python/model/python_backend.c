// SPDX-License-Identifier: Apache-2.0
// Reads --backend-config, finds the worker's files, and makes what all models share.
#include "model/python_backend.h"

#include "backend_config.h"
#include "backend_error.h"
#include "backend_log.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "codec/device_share.h"

#include <assert.h>
#include <dlfcn.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

// ---- settings (--backend-config=python,key=value)

#define MAX_ENVIRONMENT_BYTES   (INT64_C(8) << 30)
#define MAX_ENVIRONMENT_ENTRIES 1000000

typedef struct python_setting {
  const char *key;
  int64_t least;
  const char *too_small; // Triton's text; NULL: not a number
  size_t member;         // offset in python_backend; 0: without effect
} python_setting;

// hand-ahead-us is not Triton's. The last ones concern Triton's shared memory and queues.
static const python_setting SETTINGS[] = {
    {"stub-timeout-seconds", 1, "stub-timeout-seconds can't be smaller than or equal to zero.",
     offsetof(python_backend, timeout_s)},
    {"hand-ahead-us", 0, "hand-ahead-us can't be smaller than zero.",
     offsetof(python_backend, hand_ahead_us)},
    {"shm-growth-byte-size", 1, "shm-growth-byte-size can't be smaller than or equal to zero.", 0},
    {"shm-default-byte-size", 1 << 20, "shm-default-byte-size can't be smaller than 4 MiBs", 0},
    {"thread-pool-size", 1, "thread-pool-size can't be less than 1.", 0},
    {"shm_message_queue_size", INT64_MIN, "", 0},
    {"shm-region-prefix-name", 0, NULL, 0},
};

// The server gives every backend one of these for each --model-load-gpu-limit.
#define LOAD_LIMIT "model-load-gpu-limit-device-"

// Keys that need no warning: the backend's other settings, and those that every backend gets.
static const char *const OTHERS[] = {
    "python-executable",      "environment-cache", "environment-most-bytes",
    "auto-complete-config",   "backend-directory", "min-compute-capability",
    "default-max-batch-size", "framework-search",  "default-instance-kind"};

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

// As in Triton, the text after the digits is ignored.
static TRITONSERVER_Error *read_numbers(python_backend *self, const json_t *settings)
{
  for (const python_setting *setting = SETTINGS; setting < SETTINGS + COUNT(SETTINGS); setting++) {
    int64_t unneeded;
    int64_t *value = setting->member == 0 ? &unneeded : (int64_t *)((char *)self + setting->member);
    const char *rest, *text = json_string_value(json_object_get(settings, setting->key));
    if (text == NULL || setting->too_small == NULL)
      continue;
    if (!text_begins_int64(text, value, &rest))
      return backend_error_invalid("%s: '%s' is not an integer", setting->key, text);
    if (*value < setting->least)
      return backend_error_invalid("%s", setting->too_small);
  }
  return NULL;
}

static void report_key(const python_backend *self, const char *key)
{
  for (size_t i = 0; i < COUNT(SETTINGS); i++)
    if (strcmp(key, SETTINGS[i].key) == 0) {
      if (SETTINGS[i].member == 0)
        BACKEND_LOG_INFO("backend '%s': setting %s is not needed: memory is shared without names "
                         "and grows on demand",
                         self->name, key);
      return;
    }
  for (size_t i = 0; i < COUNT(OTHERS); i++)
    if (strcmp(key, OTHERS[i]) == 0)
      return;
  if (strncmp(key, LOAD_LIMIT, strlen(LOAD_LIMIT)) != 0 && !worker_sandbox_has_setting(key))
    BACKEND_LOG_WARN("backend '%s': unknown setting %s", self->name, key);
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

// For models without an instance group, on a machine with GPUs.
static TRITONSERVER_Error *read_default_kind(python_backend *self, const json_t *settings)
{
  const char *kind = json_string_value(json_object_get(settings, "default-instance-kind"));
  self->prefers_gpu = kind == NULL || strcmp(kind, "KIND_GPU") == 0;
  if (self->prefers_gpu || strcmp(kind, "KIND_CPU") == 0)
    return NULL;
  return backend_error_invalid(
      "setting default-instance-kind: '%s' is neither KIND_GPU nor KIND_CPU", kind);
}

static TRITONSERVER_Error *read_settings(python_backend *self, json_t *settings)
{
  const char *key;
  json_t *ignored;
  self->timeout_s = 30;
  self->hand_ahead_us = 200; // slower executions gain nothing
  BACKEND_RETURN_IF_ERROR(read_numbers(self, settings));
  const char *interpreter = json_string_value(json_object_get(settings, "python-executable"));
  if (interpreter != NULL && (self->interpreter = strdup(interpreter)) == NULL)
    return backend_error_no_memory("the backend");
  BACKEND_RETURN_IF_ERROR(read_default_kind(self, settings));
  BACKEND_RETURN_IF_ERROR(worker_sandbox_init(&self->sandbox, settings));
  BACKEND_RETURN_IF_ERROR(read_environments(self, settings));
  json_object_foreach(settings, key, ignored)
  {
    report_key(self, key);
  }
  BACKEND_LOG_INFO("Python workers of backend '%s' run in sandbox %s", self->name,
                   self->sandbox.strict ? "strict" : "standard");
  return NULL;
}

// ---- directories

// The directory of this library, whichever backend loads it.
static TRITONSERVER_Error *find_dir(python_backend *self)
{
  static const char here;
  Dl_info library;
  char *path = dladdr(&here, &library) == 0 ? NULL : realpath(library.dli_fname, NULL);
  if (path == NULL)
    return backend_error_internal("cannot find the Python backend's directory");
  *strrchr(path, '/') = '\0';
  self->dir = path;
  return NULL;
}

// A backend written in Python loads this library from another directory, with a model.py in it.
static TRITONSERVER_Error *find_model_dir(python_backend *self, TRITONBACKEND_Backend *backend)
{
  TRITONBACKEND_ArtifactType type;
  const char *location;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_BackendArtifacts(backend, &type, &location));
  char *resolved = realpath(location, NULL);
  if (resolved != NULL && strcmp(resolved, self->dir) != 0)
    self->model_dir = resolved;
  else
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
  json_auto_t *settings = NULL;
  BACKEND_RETURN_IF_ERROR(backend_settings(backend, &settings));
  return read_settings(self, settings);
}

TRITONSERVER_Error *python_backend_new(TRITONBACKEND_Backend *backend, python_backend **result)
{
  python_backend *self = calloc(1, sizeof(*self));
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
  LOCK_SCOPE(&self->lock);
  self->users++;
}

void python_backend_unref(python_backend *self)
{
  LOCK_SCOPE(&self->lock);
  assert(self->users > 0);
  if (--self->users == 0)
    pthread_cond_broadcast(&self->unused);
}

void python_backend_free(python_backend *self)
{
  if (self == NULL)
    return;
  pthread_mutex_lock(&self->lock);
  while (self->users > 0)
    pthread_cond_wait(&self->unused, &self->lock);
  pthread_mutex_unlock(&self->lock);
  device_share_await_retired();
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
