// SPDX-License-Identifier: Apache-2.0
// Finds a model's files and interpreter, and reads its configuration. Load threads.
#include "model/python_model.h"

#include "backend_error.h"
#include "backend_file.h"
#include "backend_log.h"
#include "base/cleanup.h"
#include "base/files.h"
#include "base/machine.h"
#include "base/slice.h"

#include <assert.h>
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

// The package name of the file's directory, which must have one because the module is imported as
// package.module: "src" for ".../1/src/model.py"; "" where the path says "." or "..".
static slice package_of(const char *path)
{
  const char *end = strrchr(path, '/'), *start = end;
  while (start[-1] != '/')
    start--;
  const slice name = {start, (size_t)(end - start)};
  return name.data[0] == '.' ? (slice){end, 0} : name;
}

// The model's file must exist; the server decides about links.
static TRITONSERVER_Error *check_file(const python_model *self)
{
  struct stat status;
  AUTO_FREE char *below = NULL;
  AUTO_CLOSE int file = -1;
  if (stat(self->path, &status) != 0)
    return backend_error_internal("Python model file not found in '%s'", self->path);
  size_t length = strlen(self->path);
  if (length < 3 || strcmp(self->path + length - 3, ".py") != 0)
    return backend_error_internal("Model name must end with '.py'. Model name is \"%s\".",
                                  file_name(self));
  if (package_of(self->path).size == 0)
    return backend_error_internal("Python model file '%s': its directory has no name in the path, "
                                  "expected one as in 'src/model.py' or '../common/model.py'",
                                  file_name(self));
  BACKEND_RETURN_IF_ERROR(backend_version_path(self->server_model, file_name(self), &below));
  return backend_open_file(self->server_model, below, &file);
}

static TRITONSERVER_Error *find_files(python_model *self)
{
  TRITONBACKEND_ArtifactType type;
  const char *dir;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelRepository(self->server_model, &type, &dir));
  if (type != TRITONBACKEND_ARTIFACT_FILESYSTEM)
    return backend_error(TRITONSERVER_ERROR_UNSUPPORTED, "unsupported artifact type for model '%s'",
                         self->name);
  self->dir = files_absolute(dir); // links are not resolved: the last part is the model's name
  if (self->dir == NULL || asprintf(&self->path, "%s/%llu/%s", self->dir,
                                    (unsigned long long)self->version, file_name(self)) < 0)
    return backend_error_internal("cannot find the directory of model '%s'", self->name);
  return self->backend->model_dir != NULL ? NULL : check_file(self);
}

// The module in the model's file, "directory.name". Both directories above are searched.
static json_t *module_text(const python_model *self)
{
  const slice package = package_of(self->path);
  const char *name = package.data + package.size + 1;
  const size_t parent = (size_t)(package.data + package.size - self->path);
  return json_pack("{ss so s[s%s%s]}", "model_file", self->path, "module",
                   json_sprintf("%.*s.%.*s", (int)package.size, package.data,
                                (int)(strlen(name) - strlen(".py")), name),
                   "search", self->path, parent, self->path, parent - package.size - 1,
                   self->backend->dir);
}

// The text of WORK_LOAD.
static char *load_text(const void *model, const char *instance_name)
{
  const python_model *self = model;
  const char *dir = self->backend->model_dir;
  json_auto_t *load = json_pack("{ss so ss ss}", "model_name", self->name, "model_version",
                                json_sprintf("%llu", (unsigned long long)self->version),
                                "instance_name", instance_name, "model_path", self->dir);
  json_t *from = dir != NULL
                     ? json_pack("{so ss s[ss]}", "model_file", json_sprintf("%s/model.py", dir),
                                 "module", "model", "search", dir, self->backend->dir)
                     : module_text(self);
  return json_object_update_new(load, from) == 0 ? json_dumps(load, JSON_COMPACT) : NULL;
}

// ---- configuration

static int64_t instance_count(const json_t *config)
{
  int64_t total = 0;
  size_t i;
  json_t *group;
  json_array_foreach(json_object_get(config, "instance_group"), i, group)
  {
    const int64_t given = json_integer_value(json_object_get(group, "count"));
    const int64_t gpus = (int64_t)json_array_size(json_object_get(group, "gpus"));
    total += (given > 0 ? given : 1) * (gpus > 0 ? gpus : 1);
  }
  return total > 0 ? total : 1;
}

// Logs that there are as many processes as instances, each with a context of its own on its GPU.
static void report_processes(const python_model *self)
{
  size_t i, gpus = 0;
  const json_t *group;
  json_array_foreach(json_object_get(self->config, "instance_group"), i, group)
  {
    gpus += json_array_size(json_object_get(group, "gpus"));
  }
  if (gpus > 0)
    BACKEND_LOG_INFO(
        "model '%s': %lld Python processes, one for each instance; those on a GPU take "
        "memory of it when they use CUDA (an instance_group says how many and where; "
        "without one: --backend-config=python,default-instance-kind=KIND_CPU)",
        self->name, (long long)instance_count(self->config));
}

static void free_config(python_model *self)
{
  json_decref(self->config);
  free(self->config_text);
  free(self->signature.outputs);
  free(self->signature.states);
  self->config = NULL;
  self->config_text = NULL;
  self->signature = (output_signature){.model = self->name};
}

// The names belong to the configuration.
static TRITONSERVER_Error *read_states(output_signature *signature, const json_t *config)
{
  const json_t *states = json_object_get(json_object_get(config, "sequence_batching"), "state");
  const size_t count = json_array_size(states);
  if (count == 0)
    return NULL;
  signature->states = calloc(count, sizeof(*signature->states));
  if (signature->states == NULL)
    return backend_error_no_memory("the model's configuration");
  for (size_t i = 0; i < count; i++)
    signature->states[signature->state_count++] = (state_signature){
        .name = backend_json_text(json_array_get(states, i), "output_name"),
        .datatype = backend_datatype_of(backend_json_text(json_array_get(states, i), "data_type"))};
  return NULL;
}

TRITONSERVER_Error *python_model_read_config(python_model *self)
{
  free_config(self);
  BACKEND_RETURN_IF_ERROR(backend_model_config(self->server_model, &self->config));
  self->config_text = json_dumps(self->config, JSON_COMPACT);
  if (self->config_text == NULL)
    return backend_error_no_memory("the model's configuration");
  const json_t *policy = json_object_get(self->config, "model_transaction_policy");
  self->max_batch_size = json_integer_value(json_object_get(self->config, "max_batch_size"));
  self->decoupled = json_is_true(json_object_get(policy, "decoupled"));
  self->workers.keeps_sequences = backend_keeps_sequences(self->config);
  BACKEND_RETURN_IF_ERROR(read_states(&self->signature, self->config));
  return backend_tensor_configs(self->config, "output", &self->signature.outputs,
                                &self->signature.count);
}

// ---- command and environment of the workers

static TRITONSERVER_Error *find_python(python_model *self)
{
  const python_backend *backend = self->backend;
  const worker_paths paths = {.backend = backend->dir,
                              .backend_model = backend->model_dir,
                              .model = self->dir,
                              .model_file = self->path};
  BACKEND_RETURN_IF_ERROR(python_interpreter_init(&self->python, backend->environments,
                                                  backend->interpreter, self->config, self->dir));
  const int64_t threads = (int)machine_cpus() / instance_count(self->config);
  BACKEND_RETURN_IF_ERROR(
      worker_variables_init(&self->environment, &self->python, threads, backend->sandbox.strict));
  BACKEND_RETURN_IF_ERROR(
      worker_command_init(&self->command, &backend->sandbox, &paths, &self->python));
  self->workers = (worker_settings){.model = self->name,
                                    .keeps_sequences = backend_keeps_sequences(self->config),
                                    .version = self->version,
                                    .command = self->command.items,
                                    .environment = self->environment.items,
                                    .interpreter = self->python.path,
                                    .shared_bytes = (size_t)backend->sandbox.shared_bytes,
                                    .timeout_s = backend->timeout_s,
                                    .load_text = load_text,
                                    .load_user = self};
  return NULL;
}

static TRITONSERVER_Error *read_parameters(python_model *self)
{
  const char *given = backend_parameter(self->config, "FORCE_CPU_ONLY_INPUT_TENSORS");
  if (given == NULL)
    return NULL;
  self->takes_devices = strcmp(given, "no") == 0;
  if (self->takes_devices)
    BACKEND_LOG_INFO("Input tensors can be both in CPU and GPU. "
                     "FORCE_CPU_ONLY_INPUT_TENSORS is off.");
  else if (strcmp(given, "yes") == 0)
    BACKEND_LOG_INFO("Forcing CPU only input tensors.");
  else
    return backend_error(TRITONSERVER_ERROR_UNSUPPORTED,
                         "Incorrect value for FORCE_CPU_ONLY_INPUT_TENSORS: %s'", given);
  return NULL;
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
  BACKEND_RETURN_IF_ERROR(python_model_read_config(self));
  BACKEND_RETURN_IF_ERROR(read_parameters(self));
  BACKEND_RETURN_IF_ERROR(find_files(self));
  report_processes(self);
  return find_python(self);
}

TRITONSERVER_Error *python_model_new(TRITONBACKEND_Model *model, python_backend *backend,
                                     python_model **result)
{
  python_model *self = calloc(1, sizeof(*self));
  if (self == NULL)
    return backend_error_no_memory("the model");
  self->backend = backend;
  self->server_model = model;
  TRITONSERVER_Error *error = load(self);
  if (error != NULL) {
    python_model_free(self);
    return error;
  }
  *result = self;
  return NULL;
}

void python_model_free(python_model *self)
{
  if (self == NULL)
    return;
  assert(self->spare == NULL);
  string_list_fini(&self->environment);
  string_list_fini(&self->command);
  free_config(self);
  python_interpreter_fini(&self->python);
  free(self->path);
  free(self->dir);
  free(self->name);
  free(self);
}
