// SPDX-License-Identifier: Apache-2.0
// The model's file and its session.
#include "onnx_model.h"

#include "backend_artifact.h"
#include "backend_error.h"
#include "backend_file.h"
#include "backend_log.h"
#include "base/cleanup.h"
#include "base/files.h"
#include "onnx_data_files.h"
#include "onnx_types.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// protobuf's limit. Larger models have their weights in external files.
#define FILE_MAX_BYTES ((size_t)INT32_MAX)

// A model's file in memory, and the directories of its external data.
typedef struct onnx_file {
  void *data;
  size_t size;
  char *path; // directory of the file's name, relative to the model's directory
  int dir;    // that directory
  int target; // the file's real directory, when its name is a link into another directory; or -1
} onnx_file;

// If the file's name is a directory, uses model.onnx in it, which lies beside its external data.
static TRITONSERVER_Error *find_file(const framework_model *self, int device, char **path)
{
  int dir = -1;
  char *inside = NULL;
  const char *name;
  BACKEND_RETURN_IF_ERROR(backend_artifact(self->config, device, &name));
  BACKEND_RETURN_IF_ERROR(
      backend_version_path(self->model, *name != '\0' ? name : "model.onnx", path));
  TRITONSERVER_Error *error = backend_open_dir(self->model, *path, &dir);
  if (error != NULL) {
    TRITONSERVER_ErrorDelete(error);
    return NULL;
  }
  close(dir);
  if (asprintf(&inside, "%s/model.onnx", *path) < 0)
    return backend_error_no_memory("a path");
  free(*path);
  *path = inside;
  return NULL;
}

// The directory of the open file; -1 when it is `named` or unknown.
static int open_target_dir(int file, int named)
{
  struct stat here, there;
  char *path AUTO_FREE = NULL;
  AUTO_ERROR error *e = files_path_of(file, &path);
  char *slash = e == NULL ? strrchr(path, '/') : NULL;
  if (slash == NULL)
    return -1;
  slash[1] = '\0';
  int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (dir < 0 || fstat(dir, &here) != 0 || fstat(named, &there) != 0 ||
      (here.st_ino == there.st_ino && here.st_dev == there.st_dev)) {
    if (dir >= 0)
      close(dir);
    return -1;
  }
  return dir;
}

// Reads <version>/<the file for the device, or model.onnx>.
static TRITONSERVER_Error *read_file(const framework_model *self, int device, onnx_file *file)
{
  int descriptor = -1;
  BACKEND_RETURN_IF_ERROR(find_file(self, device, &file->path));
  BACKEND_RETURN_IF_ERROR(backend_open_file(self->model, file->path, &descriptor));
  TRITONSERVER_Error *error =
      backend_read_file(descriptor, file->path, FILE_MAX_BYTES, &file->data, &file->size);
  *strrchr(file->path, '/') = '\0'; // the path has a slash after the version
  if (error == NULL)
    error = backend_open_dir(self->model, file->path, &file->dir);
  if (error == NULL)
    file->target = open_target_dir(descriptor, file->dir);
  close(descriptor);
  return error;
}

// Options for a file in memory: ONNX Runtime copies the bytes, and finds external data in the
// file's directory unless it is offered in memory.
static TRITONSERVER_Error *add_file_options(const framework_model *self, const onnx_file *file,
                                            const onnx_data_files *data,
                                            ort_session_options *options)
{
  char dir[64];
  snprintf(dir, sizeof(dir), "/proc/self/fd/%d", file->dir);
  const struct {
    const char *key;
    const char *value;
  } entries[] = {
      {"session.use_ort_model_bytes_directly", "0"},
      {"session.use_ort_model_bytes_for_initializers", "0"},
      {"session.model_external_initializers_file_dir_path", dir},
  };
  for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
    ORT_RETURN_IF_ERROR(onnx_runtime_of(self), onnx_runtime_of(self)->api.AddSessionConfigEntry(
                                                   options, entries[i].key, entries[i].value));
  return data == NULL ? NULL : onnx_data_files_offer(data, onnx_runtime_of(self), options);
}

// A session to be made, and its place.
typedef struct new_session {
  const framework_model *model;
  const onnx_target *target;
  ort_session **session;
} new_session;

static TRITONSERVER_Error *make_session_of(const new_session *wanted, const onnx_file *file,
                                           const onnx_data_files *data)
{
  const framework_model *self = wanted->model;
  const ort_api *api = &onnx_runtime_of(self)->api;
  ort_session_options *options = NULL;
  BACKEND_RETURN_IF_ERROR(onnx_session_options(self, wanted->target, &options));
  TRITONSERVER_Error *error = add_file_options(self, file, data, options);
  if (error == NULL)
    error = ort_error(onnx_runtime_of(self),
                      api->CreateSessionFromArray(onnx_runtime_of(self)->env, file->data,
                                                  file->size, options, wanted->session));
  api->ReleaseSessionOptions(options);
  return error;
}

static TRITONSERVER_Error *make_session_in_memory(const new_session *wanted, const onnx_file *file)
{
  onnx_data_files data;
  TRITONSERVER_Error *error =
      onnx_data_files_init(&data, wanted->model->model, file->path, file->target);
  if (error == NULL && data.count <= 1) // only the model itself
    error = backend_error(TRITONSERVER_ERROR_NOT_FOUND, "there is no external data");
  if (error == NULL)
    error = make_session_of(wanted, file, &data);
  onnx_data_files_fini(&data);
  return error;
}

// ONNX Runtime looks for external data in one directory only, and newer versions follow no link out
// of it.
static TRITONSERVER_Error *try_session(const new_session *wanted, const onnx_file *file)
{
  const framework_model *self = wanted->model;
  TRITONSERVER_Error *error = make_session_of(wanted, file, NULL);
  if (error == NULL || onnx_runtime_of(self)->add_data_files == NULL)
    return error;
  TRITONSERVER_Error *second = make_session_in_memory(wanted, file);
  if (second == NULL)
    BACKEND_LOG_INFO(
        "model '%s': its external data came from memory, as ONNX Runtime did not find it "
        "on the disk by itself",
        self->name);
  TRITONSERVER_ErrorDelete(second == NULL ? error : second);
  return second == NULL ? NULL : error;
}

static TRITONSERVER_Error *make_session(const framework_model *model, const onnx_target *target,
                                        ort_session **session)
{
  const new_session wanted = {.model = model, .target = target, .session = session};
  onnx_file file = {.dir = -1, .target = -1};
  TRITONSERVER_Error *error = read_file(model, target->device, &file);
  if (error == NULL)
    error = try_session(&wanted, &file);
  free(file.data);
  free(file.path);
  if (file.dir >= 0)
    close(file.dir);
  if (file.target >= 0)
    close(file.target);
  return error;
}

// ---- the model ----

static const onnx_target cpu_target = {.device = -1};

// The places of instances: whether any is on the CPU, and a device of one on a GPU, or -1.
static void read_groups(const framework_model *model, bool *cpu, int *device)
{
  const json_t *groups = json_object_get(model->config, "instance_group");
  *device = -1;
  *cpu = json_array_size(groups) == 0;
  for (size_t i = 0; i < json_array_size(groups); i++) {
    const json_t *group = json_array_get(groups, i);
    const bool gpu = strcmp(backend_json_text(group, "kind"), "KIND_GPU") == 0;
    *cpu = *cpu || !gpu;
    if (gpu && *device < 0)
      *device = (int)json_integer_value(json_array_get(json_object_get(group, "gpus"), 0));
  }
}

static TRITONSERVER_Error *make_first(framework_model *model, const onnx_target *target,
                                      ort_session **session)
{
  BACKEND_RETURN_IF_ERROR(make_session(model, target, session));
  return onnx_signature_read(onnx_runtime_of(model), *session, &model->signature);
}

// Reads the signature from a session that an instance will use, on the CPU if one is there.
TRITONSERVER_Error *onnx_model_load(framework_model *model)
{
  onnx_model *self = calloc(1, sizeof(*self));
  bool on_cpu = false;
  int device = -1;
  if (self == NULL)
    return backend_error_no_memory("the model");
  model->state = self;
  pthread_mutex_init(&self->lock, NULL);
  read_groups(model, &on_cpu, &device);
  if (device >= 0)
    BACKEND_RETURN_IF_ERROR(onnx_check_gpu(model));
  if (on_cpu)
    return make_first(model, &cpu_target, &self->session);
  self->spare_target.device = device;
  BACKEND_RETURN_IF_ERROR(backend_error_of(gpu_stream_new(device, 0, &self->spare_target.stream)));
  return make_first(model, &self->spare_target, &self->spare);
}

TRITONSERVER_Error *onnx_model_cpu_session(framework_model *model, ort_session **session)
{
  onnx_model *self = model->state;
  LOCK_SCOPE(&self->lock);
  TRITONSERVER_Error *error =
      self->session == NULL ? make_session(model, &cpu_target, &self->session) : NULL;
  *session = self->session;
  return error;
}

static bool take_spare(onnx_model *self, backend_device *device, ort_session **session)
{
  LOCK_SCOPE(&self->lock);
  if (self->spare == NULL || self->spare_target.device != device->ordinal)
    return false;
  gpu_stream_free(device->stream); // it is empty
  device->stream = self->spare_target.stream;
  *session = self->spare;
  self->spare_target.stream = NULL;
  self->spare = NULL;
  return true;
}

TRITONSERVER_Error *onnx_model_gpu_session(framework_model *model, backend_device *device,
                                           ort_session **session)
{
  const onnx_target target = {.device = device->ordinal, .stream = device->stream};
  return take_spare(model->state, device, session) ? NULL : make_session(model, &target, session);
}

static TRITONSERVER_Error *complete_batching(framework_model *model, bool *changed)
{
  if (framework_first_dimension_open(&model->signature.inputs) &&
      framework_first_dimension_open(&model->signature.outputs))
    return framework_complete_batching(model, changed);
  if (model->max_batch_size == 0)
    return NULL;
  return backend_error_invalid(
      "autofill failed for model '%s': model does not support batching while "
      "non-zero max_batch_size is specified",
      model->name);
}

TRITONSERVER_Error *onnx_model_complete(framework_model *model, bool *changed)
{
  bool inputs_given = json_array_size(json_object_get(model->config, "input")) > 0 ||
                      json_array_size(json_object_get(model->config, "batch_input")) > 0;
  bool outputs_given = json_array_size(json_object_get(model->config, "output")) > 0;
  if (inputs_given && outputs_given) {
    BACKEND_LOG_VERBOSE("skipping model configuration auto-complete for '%s': inputs and outputs "
                        "already specified",
                        model->name);
    return NULL;
  }
  BACKEND_RETURN_IF_ERROR(complete_batching(model, changed));
  if (!inputs_given)
    BACKEND_RETURN_IF_ERROR(
        framework_complete_tensors(model, "input", &model->signature.inputs, changed));
  if (!outputs_given)
    BACKEND_RETURN_IF_ERROR(
        framework_complete_tensors(model, "output", &model->signature.outputs, changed));
  return NULL;
}

void onnx_model_unload(framework_model *model)
{
  onnx_model *self = model->state;
  if (self == NULL)
    return;
  if (self->session != NULL)
    onnx_runtime_of(model)->api.ReleaseSession(self->session);
  if (self->spare != NULL)
    onnx_runtime_of(model)->api.ReleaseSession(self->spare);
  gpu_stream_free(self->spare_target.stream);
  pthread_mutex_destroy(&self->lock);
  free(self);
}
