// SPDX-License-Identifier: Apache-2.0
// A model's files, its compilation and its completion.
#include "ov_model.h"

#include "backend_error.h"
#include "backend_file.h"
#include "backend_log.h"
#include "base/cleanup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- files ----

// The model is a file or a SavedModel's directory.
static TRITONSERVER_Error *check_file(const framework_model *model, const char *path)
{
  char *inside AUTO_FREE = NULL;
  int found = -1;
  TRITONSERVER_Error *error = backend_open_dir(model->model, path, &found);
  if (error == NULL) {
    close(found);
    if (asprintf(&inside, "%s/saved_model.pb", path) < 0)
      return backend_error_no_memory("a path");
  }
  TRITONSERVER_ErrorDelete(error);
  BACKEND_RETURN_IF_ERROR(backend_open_file(model->model, inside != NULL ? inside : path, &found));
  close(found);
  return NULL;
}

// OpenVINO opens the file by name, because its ending and the files beside it matter: weights,
// external data.
static TRITONSERVER_Error *read_file(framework_model *model)
{
  ov_model_state *state = ov_state_of(model);
  const ov_runtime *runtime = ov_runtime_of(model);
  const char *name = backend_json_text(model->config, "default_model_filename");
  char *dir AUTO_FREE = NULL;
  char *proc_dir AUTO_FREE = NULL;
  char *proc_file AUTO_FREE = NULL;
  int descriptor = -1;
  BACKEND_RETURN_IF_ERROR(
      backend_version_path(model->model, *name != '\0' ? name : "model.xml", &state->file));
  BACKEND_RETURN_IF_ERROR(check_file(model, state->file));
  const char *slash = strrchr(state->file, '/'); // the path has a slash after the version
  dir = strndup(state->file, (size_t)(slash - state->file));
  if (dir == NULL)
    return backend_error_no_memory("a path");
  BACKEND_RETURN_IF_ERROR(framework_open_folder(model, dir, &descriptor, &proc_dir));
  if (asprintf(&proc_file, "%s%s", proc_dir, slash) < 0)
    proc_file = NULL;
  TRITONSERVER_Error *error =
      proc_file == NULL
          ? backend_error_no_memory("a path")
          : ov_file_error(runtime,
                          runtime->api.core_read_model(state->core, proc_file, NULL, &state->model),
                          "reading model", proc_dir, dir);
  close(descriptor);
  return error;
}

TRITONSERVER_Error *ov_model_load(framework_model *model)
{
  ov_model_state *state = calloc(1, sizeof(*state));
  model->state = state;
  if (state == NULL)
    return backend_error_no_memory("the model");
  OV_TRY(ov_runtime_of(model), core_create(&state->core), "making a core");
  BACKEND_RETURN_IF_ERROR(ov_options_set(model));
  BACKEND_RETURN_IF_ERROR(read_file(model));
  return ov_signature_read(model);
}

void ov_model_unload(framework_model *model)
{
  ov_model_state *state = ov_state_of(model);
  const ov_api *api = &ov_runtime_of(model)->api;
  if (state == NULL)
    return;
  if (state->compiled != NULL)
    api->compiled_model_free(state->compiled);
  if (state->model != NULL)
    api->model_free(state->model);
  if (state->core != NULL)
    api->core_free(state->core);
  free(state->device);
  free(state->file);
  free(state);
}

// ---- completion ----

// An IR's layouts say whether the model can batch. Most models have none.
static TRITONSERVER_Error *complete_batching(framework_model *model, bool *changed)
{
  if (!ov_layouts_have_batch(model)) {
    if (model->max_batch_size != 0)
      BACKEND_LOG_WARN("model layout for model %s does not support batching while non-zero "
                       "max_batch_size is specified",
                       model->name);
    return NULL;
  }
  if (model->default_max_batch_size < 1)
    model->default_max_batch_size = 1;
  return framework_complete_batching(model, changed);
}

// Completes a list without entries. Triton writes -1 for all sizes of a tensor as soon as one is
// open; here the known sizes stay, because the model takes no others.
static TRITONSERVER_Error *complete_list(framework_model *model, const char *key,
                                         const framework_tensors *tensors, bool *changed)
{
  if (json_array_size(json_object_get(model->config, key)) > 0)
    return NULL;
  return framework_complete_tensors(model, key, tensors, changed);
}

TRITONSERVER_Error *ov_model_complete(framework_model *model, bool *changed)
{
  BACKEND_RETURN_IF_ERROR(complete_batching(model, changed));
  BACKEND_RETURN_IF_ERROR(complete_list(model, "input", &model->signature.inputs, changed));
  return complete_list(model, "output", &model->signature.outputs, changed);
}

// ---- compilation ----

TRITONSERVER_Error *ov_model_prepare(framework_model *model)
{
  ov_model_state *state = ov_state_of(model);
  const ov_runtime *runtime = ov_runtime_of(model);
  const bool batches = model->max_batch_size > 0 && state->auto_batching;
  OV_TRY(runtime,
         core_compile_model(state->core, state->model, state->device, 2, &state->compiled,
                            "ALLOW_AUTO_BATCHING", batches ? "YES" : "NO"),
         "loading model");
  runtime->api.model_free(state->model);
  state->model = NULL;
  return NULL;
}
