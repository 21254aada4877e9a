// Finds a model's files and interpreter, and reads its configuration, which a first worker
// completes. Load threads.
#include "model/python_model.h"

#include "backend_cpu.h"
#include "backend_error.h"
#include "backend_file.h"
#include "backend_log.h"
#include "process/text_vector.h"
#include "process/variables.h"
#include "process/worker_keeper.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *file_name(const python_model *self)
{
  const char *given = backend_json_text(self->config, "default_model_filename");
  return *given == '\0' ? "model.py" : given;
}

// ---- files

// The model's file must be there; links are the server's to judge.
static TRITONSERVER_Error *check_file(const python_model *self)
{
  struct stat status;
  char *below = NULL;
  int file = -1;
  if (stat(self->path, &status) != 0)
    return backend_error(TRITONSERVER_ERROR_INTERNAL, "Python model file not found in '%s'",
                         self->path);
  size_t length = strlen(self->path);
  if (length < 3 || strcmp(self->path + length - 3, ".py") != 0)
    return backend_error(TRITONSERVER_ERROR_INTERNAL,
                         "Model name must end with '.py'. Model name is \"%s\".", file_name(self));
  BACKEND_RETURN_IF_ERROR(backend_version_path(self->server_model, file_name(self), &below));
  TRITONSERVER_Error *error = backend_open_file(self->server_model, below, &file);
  if (file >= 0)
    close(file);
  free(below);
  return error;
}

// As the operator named it: the last part is the model's name, also where that is a link.
static char *absolute(const char *dir)
{
  char *result = NULL, *current = dir[0] == '/' ? NULL : getcwd(NULL, 0);
  if (dir[0] == '/')
    return strdup(dir);
  if (current != NULL && asprintf(&result, "%s/%s", current, dir) < 0)
    result = NULL;
  free(current);
  return result;
}

static TRITONSERVER_Error *find_files(python_model *self)
{
  TRITONBACKEND_ArtifactType type;
  const char *dir;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelRepository(self->server_model, &type, &dir));
  if (type != TRITONBACKEND_ARTIFACT_FILESYSTEM)
    return backend_error(TRITONSERVER_ERROR_UNSUPPORTED, "unsupported artifact type for model '%s'",
                         self->name);
  self->dir = absolute(dir);
  if (self->dir == NULL || asprintf(&self->path, "%s/%llu/%s", self->dir,
                                    (unsigned long long)self->version, file_name(self)) < 0)
    return backend_error(TRITONSERVER_ERROR_INTERNAL, "cannot find the directory of model '%s'",
                         self->name);
  return self->backend->model_dir != NULL ? NULL : check_file(self);
}

// The name by which the file is imported: without ".py", below the version's package.
static json_t *module_name(const python_model *self)
{
  if (self->backend->model_dir != NULL)
    return json_string("model");
  const char *file = file_name(self);
  return json_sprintf("%llu.%.*s", (unsigned long long)self->version, (int)(strlen(file) - 3),
                      file);
}

static json_t *search_path(const python_model *self)
{
  const char *backend = self->backend->dir;
  if (self->backend->model_dir != NULL)
    return json_pack("[ss]", self->backend->model_dir, backend);
  const char *slash = strrchr(self->path, '/');
  return json_pack("[s%ss]", self->path, (size_t)(slash - self->path), self->dir, backend);
}

char *python_model_load_text(const python_model *self, const char *instance_name)
{
  const char *dir = self->backend->model_dir;
  json_t *file = dir == NULL ? json_string(self->path) : json_sprintf("%s/model.py", dir);
  json_t *load = json_pack("{ss so ss ss so so so}", "model_name", self->name, "model_version",
                           json_sprintf("%llu", (unsigned long long)self->version), "instance_name",
                           instance_name, "model_path", self->dir, "model_file", file, "module",
                           module_name(self), "search", search_path(self));
  char *text = load == NULL ? NULL : json_dumps(load, JSON_COMPACT);
  json_decref(load);
  return text;
}

// ---- configuration

static int64_t instance_count(const json_t *config)
{
  int64_t total = 0;
  size_t i;
  json_t *group;
  json_array_foreach(json_object_get(config, "instance_group"), i, group)
  {
    int64_t count = json_integer_value(json_object_get(group, "count"));
    total += count > 0 ? count : 1;
  }
  return total > 0 ? total : 1;
}

// Reads what instances need from the configuration as the server has it now.
static TRITONSERVER_Error *read_config(python_model *self)
{
  json_decref(self->config);
  free(self->config_text);
  free(self->outputs);
  self->config = NULL;
  self->config_text = NULL;
  self->outputs = NULL;
  BACKEND_RETURN_IF_ERROR(backend_model_config(self->server_model, &self->config));
  self->config_text = json_dumps(self->config, JSON_COMPACT);
  if (self->config_text == NULL)
    return backend_error_no_memory("the model's configuration");
  const json_t *policy = json_object_get(self->config, "model_transaction_policy");
  self->max_batch_size = json_integer_value(json_object_get(self->config, "max_batch_size"));
  self->decoupled = json_is_true(json_object_get(policy, "decoupled"));
  BACKEND_RETURN_IF_ERROR(
      backend_tensor_configs(self->config, "output", &self->outputs, &self->signature.count));
  self->signature.model = self->name;
  self->signature.outputs = self->outputs;
  return NULL;
}

// Gives the configuration that the model's auto_complete_config returned to the server.
static TRITONSERVER_Error *set_completed(python_model *self, const char *completed)
{
  json_error_t problem;
  json_t *config = json_loads(completed, JSON_ALLOW_NUL, &problem);
  if (config == NULL)
    return backend_error(TRITONSERVER_ERROR_INTERNAL, "Failed to parse auto-complete JSON.");
  TRITONSERVER_Error *error = backend_model_set_config(self->server_model, config);
  json_decref(config);
  if (error == NULL || TRITONSERVER_ErrorCode(error) != TRITONSERVER_ERROR_INVALID_ARG)
    return error;
  // As in Triton: what is read, but makes no valid configuration, fails the load later.
  BACKEND_LOG_WARN(
      "model '%s': what auto_complete_config gave is no configuration and is left out, "
      "the model is loaded without it: %s",
      self->name, TRITONSERVER_ErrorMessage(error));
  TRITONSERVER_ErrorDelete(error);
  return NULL;
}

static TRITONSERVER_Error *complete(python_model *self)
{
  bool wanted = false;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelAutoCompleteConfig(self->server_model, &wanted));
  if (!wanted)
    return NULL;
  char *completed = NULL;
  BACKEND_RETURN_IF_ERROR(worker_keeper_start(self, self->name, &self->spare));
  BACKEND_RETURN_IF_ERROR(worker_keeper_complete(self->spare, self->config_text, &completed));
  if (completed == NULL)
    return NULL;
  TRITONSERVER_Error *error = set_completed(self, completed);
  free(completed);
  BACKEND_RETURN_IF_ERROR(error);
  return read_config(self);
}

// ---- what its workers are started with

static TRITONSERVER_Error *find_python(python_model *self)
{
  const python_backend *backend = self->backend;
  const worker_paths paths = {.backend = backend->dir,
                              .backend_model = backend->model_dir,
                              .model = self->dir,
                              .model_file = self->path};
  BACKEND_RETURN_IF_ERROR(python_interpreter_init(&self->python, backend->environments,
                                                  backend->interpreter, self->config, self->dir));
  self->thread_count = backend_cpu_count() / instance_count(self->config);
  self->environment =
      worker_variables_new(&self->python, self->thread_count, backend->sandbox.strict);
  if (self->environment == NULL)
    return backend_error_no_memory("the model");
  return worker_command_new(&backend->sandbox, &paths, &self->python, &self->command);
}

// Triton's parameter for inputs in GPU memory, which there are none of: it is checked, and nothing
// more.
static TRITONSERVER_Error *check_parameters(const python_model *self)
{
  const char *given = backend_parameter(self->config, "FORCE_CPU_ONLY_INPUT_TENSORS");
  if (given == NULL || strcmp(given, "yes") == 0 || strcmp(given, "no") == 0)
    return NULL;
  return backend_error(TRITONSERVER_ERROR_UNSUPPORTED,
                       "Incorrect value for FORCE_CPU_ONLY_INPUT_TENSORS: '%s'", given);
}

// ---- life

static TRITONSERVER_Error *load(python_model *self)
{
  const char *name;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelName(self->server_model, &name));
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelVersion(self->server_model, &self->version));
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelServer(self->server_model, &self->server));
  self->name = strdup(name);
  if (self->name == NULL)
    return backend_error_no_memory("the model");
  BACKEND_RETURN_IF_ERROR(read_config(self));
  BACKEND_RETURN_IF_ERROR(check_parameters(self));
  BACKEND_RETURN_IF_ERROR(find_files(self));
  BACKEND_RETURN_IF_ERROR(find_python(self));
  return complete(self);
}

TRITONSERVER_Error *python_model_new(TRITONBACKEND_Model *model, python_backend *backend,
                                     python_model **result)
{
  python_model *self = calloc(1, sizeof *self);
  if (self == NULL)
    return backend_error_no_memory("the model");
  self->backend = backend;
  self->server_model = model;
  pthread_mutex_init(&self->lock, NULL);
  TRITONSERVER_Error *error = load(self);
  if (error != NULL) {
    python_model_free(self);
    return error;
  }
  *result = self;
  return NULL;
}

worker_keeper *python_model_take_spare(python_model *self)
{
  pthread_mutex_lock(&self->lock);
  worker_keeper *spare = self->spare;
  self->spare = NULL;
  pthread_mutex_unlock(&self->lock);
  return spare;
}

void python_model_free(python_model *self)
{
  if (self == NULL)
    return;
  worker_keeper_stop(self->spare);
  text_vector_free(self->environment);
  text_vector_free(self->command);
  json_decref(self->config);
  free(self->config_text);
  free(self->outputs);
  python_interpreter_fini(&self->python);
  free(self->path);
  free(self->dir);
  free(self->name);
  pthread_mutex_destroy(&self->lock);
  free(self);
}
