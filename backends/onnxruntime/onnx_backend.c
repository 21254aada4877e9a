// Settings and libraries; see onnx_backend.h.
#include "onnx_backend.h"

#include "backend_config.h"
#include "backend_cpu.h"
#include "backend_error.h"
#include "ort_search.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  DEFAULT_MAX_BATCH_SIZE = 4,
  MOST_THREADS = 4096
};

typedef struct runtime_entry {
  ort_runtime *runtime;
  struct runtime_entry *next;
} runtime_entry;

struct onnx_backend {
  int64_t default_max_batch_size;
  ort_runtime_settings settings;
  pthread_mutex_t lock;    // guards `runtimes`
  runtime_entry *runtimes; // one for each path
  ort_runtime *preferred;  // NULL when none was found
  char *why_none;          // what was tried, for the error of a model that needs it
};

static TRITONSERVER_Error *read_settings(onnx_backend *self, const json_t *settings)
{
  static const char where[] = "--backend-config=onnxruntime";
  bool spin = false;
  int cores = backend_cpu_count();
  self->default_max_batch_size = DEFAULT_MAX_BATCH_SIZE;
  self->settings.intra_op_threads = 0;
  self->settings.inter_op_threads = 0;
  const struct {
    const char *key;
    int64_t most;
    int64_t *value;
  } numbers[] = {
      {"default-max-batch-size", INT32_MAX, &self->default_max_batch_size},
      {"intra_op_thread_count", MOST_THREADS, &self->settings.intra_op_threads},
      {"inter_op_thread_count", MOST_THREADS, &self->settings.inter_op_threads},
  };
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
    BACKEND_RETURN_IF_ERROR(backend_read_integer(
        where, numbers[i].key, json_string_value(json_object_get(settings, numbers[i].key)), 0,
        numbers[i].most, numbers[i].value));
  BACKEND_RETURN_IF_ERROR(
      backend_read_bool(where, "enable-global-threadpool",
                        json_string_value(json_object_get(settings, "enable-global-threadpool")),
                        &self->settings.global_threads));
  BACKEND_RETURN_IF_ERROR(
      backend_read_bool(where, "allow_spinning",
                        json_string_value(json_object_get(settings, "allow_spinning")), &spin));
  self->settings.spin = spin;
  if (self->settings.intra_op_threads == 0)
    self->settings.intra_op_threads = cores;
  if (self->settings.inter_op_threads == 0)
    self->settings.inter_op_threads = cores;
  return NULL;
}

// The library at `path`, opened at most once.
static TRITONSERVER_Error *open_path(onnx_backend *self, const char *path, ort_runtime **runtime)
{
  TRITONSERVER_Error *error = NULL;
  *runtime = NULL;
  pthread_mutex_lock(&self->lock);
  for (runtime_entry *entry = self->runtimes; entry != NULL; entry = entry->next)
    if (strcmp(entry->runtime->path, path) == 0)
      *runtime = entry->runtime;
  if (*runtime == NULL) {
    runtime_entry *entry = calloc(1, sizeof *entry);
    error = entry == NULL ? backend_error_no_memory("ONNX Runtime")
                          : ort_runtime_open(path, &self->settings, &entry->runtime);
    if (error == NULL) {
      entry->next = self->runtimes;
      self->runtimes = entry;
      *runtime = entry->runtime;
    } else {
      free(entry);
    }
  }
  pthread_mutex_unlock(&self->lock);
  return error;
}

static void note_failure(onnx_backend *self, TRITONSERVER_Error *error_owned)
{
  char *longer = NULL;
  int length = asprintf(&longer, "%s%s%s", self->why_none == NULL ? "" : self->why_none,
                        self->why_none == NULL ? "" : "; ", TRITONSERVER_ErrorMessage(error_owned));
  TRITONSERVER_ErrorDelete(error_owned);
  if (length < 0)
    return;
  free(self->why_none);
  self->why_none = longer;
}

// One place to look; takes `path_owned`, NULL when the place has no library.
static bool try_path(onnx_backend *self, char *path_owned)
{
  if (path_owned == NULL)
    return false;
  TRITONSERVER_Error *error = open_path(self, path_owned, &self->preferred);
  free(path_owned);
  if (error == NULL)
    return true;
  note_failure(self, error);
  return false;
}

static bool try_environment(onnx_backend *self, const char *folder)
{
  return folder != NULL && *folder != '\0' && try_path(self, ort_search_python(folder));
}

// The order is documented in docs/backends.md: what was asked for, then what lies nearest.
static void find_preferred(onnx_backend *self, const char *own_folder, const json_t *settings)
{
  const char *library = json_string_value(json_object_get(settings, "library"));
  if (library != NULL) {
    try_path(self, strdup(library)); // who names a library gets that one or none
    return;
  }
  if (try_environment(self, json_string_value(json_object_get(settings, "python-environment"))))
    return;
  if (try_path(self, ort_search_folder(own_folder)) ||
      try_path(self, strdup("libonnxruntime.so.1")) || try_path(self, strdup("libonnxruntime.so")))
    return;
  if (!try_environment(self, getenv("NEREID_PYTHON_ENV")))
    try_environment(self, getenv("VIRTUAL_ENV"));
}

TRITONSERVER_Error *onnx_backend_new(TRITONBACKEND_Backend *backend, onnx_backend **result)
{
  TRITONBACKEND_ArtifactType artifact_type;
  const char *own_folder;
  json_t *settings;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_BackendArtifacts(backend, &artifact_type, &own_folder));
  BACKEND_RETURN_IF_ERROR(backend_settings(backend, &settings));
  onnx_backend *made = calloc(1, sizeof *made);
  TRITONSERVER_Error *error = NULL;
  if (made == NULL) {
    error = backend_error_no_memory("the backend");
  } else {
    pthread_mutex_init(&made->lock, NULL);
    error = read_settings(made, settings);
  }
  if (error == NULL)
    find_preferred(made, own_folder, settings);
  json_decref(settings);
  if (error != NULL) {
    onnx_backend_free(made);
    return error;
  }
  *result = made;
  return NULL;
}

void onnx_backend_free(onnx_backend *self)
{
  if (self == NULL)
    return;
  while (self->runtimes != NULL) {
    runtime_entry *entry = self->runtimes;
    self->runtimes = entry->next;
    ort_runtime_close(entry->runtime);
    free(entry);
  }
  pthread_mutex_destroy(&self->lock);
  free(self->why_none);
  free(self);
}

TRITONSERVER_Error *onnx_backend_runtime(onnx_backend *self, const json_t *model_config,
                                         ort_runtime **runtime)
{
  const char *named = backend_parameter(model_config, "onnxruntime_library");
  if (named != NULL)
    return open_path(self, named, runtime);
  *runtime = self->preferred;
  if (*runtime != NULL)
    return NULL;
  return backend_error(
      TRITONSERVER_ERROR_UNAVAILABLE,
      "ONNX Runtime was not found. Install it with 'pip install onnxruntime' in a virtual "
      "environment and start the server with --backend-config=onnxruntime,python-environment=DIR, "
      "or name the library with --backend-config=onnxruntime,library=PATH (%s)",
      self->why_none == NULL ? "no library was found" : self->why_none);
}

int64_t onnx_backend_default_max_batch_size(const onnx_backend *self)
{
  return self->default_max_batch_size;
}
