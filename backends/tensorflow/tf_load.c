// SPDX-License-Identifier: Apache-2.0
// Reads a model's files before TensorFlow does. Load threads.
#include "tf_model.h"

#include "backend_error.h"
#include "backend_file.h"
#include "backend_log.h"
#include "base/cleanup.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_MAX_BYTES     ((size_t)INT32_MAX) // protobuf's limit
#define INIT_OPS_MAX_BYTES ((size_t)1024 * 1024)

// ---- files ----

static TRITONSERVER_Error *open_source(const framework_model *model, tf_model *self)
{
  const char *name = backend_json_text(model->config, "default_model_filename");
  if (*name == '\0')
    name = self->is_graph ? "model.graphdef" : "model.savedmodel";
  BACKEND_RETURN_IF_ERROR(backend_version_path(model->model, name, &self->path));
  return self->is_graph ? backend_open_file(model->model, self->path, &self->source)
                        : framework_open_folder(model, self->path, &self->source, &self->folder);
}

// Reads a file below the model's directory.
static TRITONSERVER_Error *read_file(const framework_model *model, const char *path, size_t most,
                                     void **data, size_t *size)
{
  int file AUTO_CLOSE = -1;
  BACKEND_RETURN_IF_ERROR(backend_open_file(model->model, path, &file));
  return backend_read_file(file, path, most, data, size);
}

// Adds the file's name to `error`.
static TRITONSERVER_Error *name_file(TRITONSERVER_Error *error, const char *path)
{
  if (error == NULL)
    return NULL;
  TRITONSERVER_Error *named =
      backend_error(TRITONSERVER_ErrorCode(error), "unable to load '%s': %s", path,
                    TRITONSERVER_ErrorMessage(error));
  TRITONSERVER_ErrorDelete(error);
  return named;
}

// ---- signatures ----

static TRITONSERVER_Error *read_saved_model(framework_model *model, tf_model *self)
{
  const tf_choice choice = {
      .model = model->name, .tag = self->options.tag, .signature = self->options.signature};
  char *path AUTO_FREE = NULL;
  void *data AUTO_FREE = NULL;
  size_t size = 0;
  if (asprintf(&path, "%s/saved_model.pb", self->path) < 0)
    return backend_error_no_memory("a path");
  BACKEND_RETURN_IF_ERROR(read_file(model, path, FILE_MAX_BYTES, &data, &size));
  return name_file(tf_file_read_saved_model(&self->file, (slice){data, size}, &choice), path);
}

static bool add_names(json_t *names, const json_t *list, const char *key)
{
  bool added = true;
  for (size_t i = 0; i < json_array_size(list); i++)
    added = json_object_set_new(names, backend_json_text(json_array_get(list, i), key),
                                json_true()) == 0 &&
            added;
  return added;
}

// The configured outputs and states must be in the graph.
static TRITONSERVER_Error *check_wanted(const framework_model *model, json_t *wanted)
{
  const char *name;
  json_t *value;
  json_object_foreach(wanted, name, value)
  {
    if (framework_tensor_find(&model->signature.outputs, name) == NULL)
      return backend_error_invalid("unexpected inference output '%s', the graph of model '%s' has "
                                   "no operation of that name that is no Placeholder",
                                   name, model->name);
  }
  return NULL;
}

static TRITONSERVER_Error *read_graph(framework_model *model, tf_model *self)
{
  const json_t *sequence = json_object_get(model->config, "sequence_batching");
  void *data AUTO_FREE = NULL;
  size_t size = 0;
  BACKEND_RETURN_IF_ERROR(
      backend_read_file(self->source, self->path, FILE_MAX_BYTES, &data, &size));
  json_t *wanted = json_object();
  TRITONSERVER_Error *error = NULL;
  if (wanted == NULL || !add_names(wanted, json_object_get(model->config, "output"), "name") ||
      !add_names(wanted, json_object_get(sequence, "state"), "output_name"))
    error = backend_error_no_memory("the model's tensors");
  if (error == NULL)
    error = name_file(tf_file_read_graph(&self->file, (slice){data, size}, model->name, wanted),
                      self->path);
  if (error == NULL)
    error = check_wanted(model, wanted);
  json_decref(wanted);
  return error;
}

// ---- what else is loaded ----

// The file is in the version's directory, or in the model's.
static TRITONSERVER_Error *read_init_file(const framework_model *model, const char *name,
                                          void **data, size_t *size)
{
  char *path AUTO_FREE = NULL;
  BACKEND_RETURN_IF_ERROR(backend_version_path(model->model, name, &path));
  TRITONSERVER_Error *error = read_file(model, path, INIT_OPS_MAX_BYTES, data, size);
  if (error == NULL || TRITONSERVER_ErrorCode(error) != TRITONSERVER_ERROR_UNAVAILABLE)
    return error;
  TRITONSERVER_ErrorDelete(error);
  return read_file(model, name, INIT_OPS_MAX_BYTES, data, size);
}

static TRITONSERVER_Error *read_init_ops(const framework_model *model, tf_model *self)
{
  const char *name = backend_parameter(model->config, "TF_INIT_OPS_FILE");
  void *data AUTO_FREE = NULL;
  size_t size = 0;
  json_error_t reason;
  if (name == NULL || *name == '\0')
    return NULL;
  BACKEND_RETURN_IF_ERROR(read_init_file(model, name, &data, &size));
  json_t *content = json_loadb(data, size, JSON_REJECT_DUPLICATES, &reason);
  if (content == NULL)
    return backend_error_invalid("unable to read '%s': %s", name, reason.text);
  self->init_ops = json_incref(json_object_get(content, "init_ops"));
  json_decref(content);
  return json_is_array(self->init_ops)
             ? NULL
             : backend_error_invalid(
                   "'%s' has no list init_ops, expected {\"init_ops\": [\"NAME\"]}", name);
}

// Additional operators, for all models: TensorFlow loads each library once.
static TRITONSERVER_Error *load_operators(const framework_model *model)
{
  const tf_api *api = tf_api_of(model);
  const json_t *operations = json_object_get(model->config, "model_operations");
  const json_t *files = json_object_get(operations, "op_library_filename");
  for (size_t i = 0; i < json_array_size(files); i++) {
    tf_api_status *status = api->NewStatus();
    tf_api_library *library =
        status == NULL ? NULL
                       : api->LoadLibrary(json_string_value(json_array_get(files, i)), status);
    TRITONSERVER_Error *error = tf_error(api, status, NULL);
    api->DeleteLibraryHandle(library);
    api->DeleteStatus(status);
    BACKEND_RETURN_IF_ERROR(error);
    atomic_store(&((tf_runtime *)model->library->state)->has_more_operators, true);
  }
  return NULL;
}

// ---- the model ----

static TRITONSERVER_Error *read_platform(const framework_model *model, tf_model *self)
{
  const char *platform = backend_json_text(model->config, "platform");
  self->is_graph = strcmp(platform, "tensorflow_graphdef") == 0;
  if (self->is_graph || strcmp(platform, "tensorflow_savedmodel") == 0)
    return NULL;
  return backend_error_invalid("platform %s not supported for TensorFlow model '%s'", platform,
                               model->name);
}

TRITONSERVER_Error *tf_model_load(framework_model *model)
{
  tf_model *self = calloc(1, sizeof(*self));
  model->state = self;
  if (self == NULL)
    return backend_error_no_memory("the model");
  self->source = -1;
  self->file.signature = &model->signature;
  pthread_mutex_init(&self->lock, NULL);
  BACKEND_RETURN_IF_ERROR(read_platform(model, self));
  BACKEND_RETURN_IF_ERROR(load_operators(model));
  BACKEND_RETURN_IF_ERROR(tf_options_read(model, &self->options));
  BACKEND_RETURN_IF_ERROR(read_init_ops(model, self));
  BACKEND_RETURN_IF_ERROR(open_source(model, self));
  return self->is_graph ? read_graph(model, self) : read_saved_model(model, self);
}

void tf_model_unload(framework_model *model)
{
  tf_model *self = model->state;
  if (self == NULL)
    return;
  assert(self->sessions == NULL); // they were freed with the instances
  if (self->source >= 0)
    close(self->source);
  tf_file_fini(&self->file);
  json_decref(self->init_ops);
  pthread_mutex_destroy(&self->lock);
  free(self->folder);
  free(self->path);
  free(self);
}
