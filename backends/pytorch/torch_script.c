// SPDX-License-Identifier: Apache-2.0
// TorchScript models, through the shim. Each instance has a module of its own, because code may
// keep state, unless the model shares its weights.
#include "torch_model.h"

#include "backend_error.h"
#include "backend_file.h"
#include "backend_log.h"
#include "base/container_of.h"
#include "torch_signature.h"
#include "torch_types.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_THREADS 4096

typedef struct script_model {
  torch_model base;
  int file; // the model's, for further instances
  char *path;
  bool is_dictionary; // all inputs are entries of one argument
  bool shares;        // all instances run `module`
  nereid_torch_options options;
  pthread_mutex_t lock;
  nereid_torch_module *module; // the first module; NULL once an instance has taken it
} script_model;

static script_model *script_of(const framework_model *model)
{
  return container_of(torch_model_of(model), script_model, base);
}

static const torch_shim *shim_of(const framework_model *model)
{
  return &torch_library_of(model)->shim;
}

// ---- the shim ----

// The first model that needs it opens it; others wait.
static TRITONSERVER_Error *open_shim(torch_library *library)
{
  const torch_shim_wanted wanted = {.library = library->path,
                                    .version = library->version,
                                    .cxx11 = library->cxx11,
                                    .cache_dir = library->settings->cache_dir,
                                    .compiler = library->settings->compiler};
  TRITONSERVER_Error *error = NULL;
  pthread_mutex_lock(&library->lock);
  if (!library->shim_opened)
    error = torch_shim_open(&wanted, &library->shim);
  library->shim_opened = error == NULL;
  pthread_mutex_unlock(&library->lock);
  return error;
}

// ---- parameters ----

static TRITONSERVER_Error *read_option(const framework_model *model, const char *key, bool inverted,
                                       int *value)
{
  bool on = false;
  if (backend_parameter(model->config, key) == NULL)
    return NULL;
  BACKEND_RETURN_IF_ERROR(framework_read_switch(model, key, &on));
  *value = on != inverted;
  return NULL;
}

static TRITONSERVER_Error *read_options(framework_model *model)
{
  script_model *self = script_of(model);
  nereid_torch_options *o = &self->options;
  bool ignored = false; // GPUs' memory
  *o = (nereid_torch_options){1, 1, 1, -1, -1, -1};
  BACKEND_RETURN_IF_ERROR(read_option(model, "DISABLE_OPTIMIZED_EXECUTION", true, &o->optimize));
  BACKEND_RETURN_IF_ERROR(read_option(model, "INFERENCE_MODE", false, &o->inference_mode));
  BACKEND_RETURN_IF_ERROR(read_option(model, "DISABLE_CUDNN", true, &o->cudnn));
  BACKEND_RETURN_IF_ERROR(read_option(model, "ENABLE_JIT_PROFILING", false, &o->jit_profiling));
  BACKEND_RETURN_IF_ERROR(read_option(model, "ENABLE_JIT_EXECUTOR", false, &o->jit_executor));
  BACKEND_RETURN_IF_ERROR(read_option(model, "ENABLE_TENSOR_FUSER", false, &o->tensor_fuser));
  BACKEND_RETURN_IF_ERROR(framework_read_switch(model, "ENABLE_CACHE_CLEANING", &ignored));
  return framework_read_switch(model, "ENABLE_WEIGHT_SHARING", &self->shares);
}

// PyTorch takes the number once per process, before its threads exist.
static TRITONSERVER_Error *set_interop_threads(const framework_model *model)
{
  int64_t threads = 0;
  BACKEND_RETURN_IF_ERROR(
      framework_read_count(model, "INTER_OP_THREAD_COUNT", MOST_THREADS, &threads));
  char *why = threads > 0 ? shim_of(model)->set_interop_threads((int)threads) : NULL;
  if (why != NULL)
    BACKEND_LOG_INFO("model '%s': INTER_OP_THREAD_COUNT is left as it was: %.*s", model->name,
                     (int)strcspn(why, "\n"), why);
  free(why);
  return NULL;
}

// ---- modules ----

static TRITONSERVER_Error *load_module(const framework_model *model, nereid_torch_module **module)
{
  const script_model *self = script_of(model);
  void *data = NULL;
  size_t size = 0;
  if (lseek(self->file, 0, SEEK_SET) != 0)
    return backend_error_internal("unable to read '%s'", self->path);
  BACKEND_RETURN_IF_ERROR(backend_read_file(self->file, self->path, SIZE_MAX / 2, &data, &size));
  char *why = shim_of(model)->load(data, size, self->options.inference_mode, module);
  free(data);
  if (why == NULL) // no module either: there was no memory for the text
    return *module != NULL ? NULL : backend_error_no_memory(self->path);
  const char *line = why + strspn(why, " \n"); // the first one that is not empty
  TRITONSERVER_Error *error =
      backend_error_internal("failed to load model '%s' from '%s': %.*s", model->name, self->path,
                             (int)strcspn(line, "\n"), line);
  free(why);
  return error;
}

// ---- the signature ----

static TRITONSERVER_Error *check_arguments(const framework_model *model, bool *is_dictionary)
{
  const torch_shim *shim = shim_of(model);
  const nereid_torch_module *module = script_of(model)->module;
  const size_t count = shim->argument_count(module);
  *is_dictionary = count == 1 && shim->argument_kind(module, 0) == NEREID_TORCH_DICT;
  for (size_t i = 0; i < count && !*is_dictionary; i++) {
    const int kind = shim->argument_kind(module, i);
    if (kind == NEREID_TORCH_DICT && i > 0)
      return backend_error_internal(
          "Multiple inputs of kind DictType were detected. Only a single input of type Dict(str, "
          "Tensor) is supported.");
    if (kind != NEREID_TORCH_TENSOR && kind != NEREID_TORCH_LIST)
      return backend_error_internal(
          "An input of type '%s' was detected in the model. Only a single input of type Dict(str, "
          "Tensor) or input(s) of type Tensor are supported.",
          shim->argument_type(module, i));
  }
  return NULL;
}

static TRITONSERVER_Error *make_signature(framework_model *model)
{
  const torch_shim *shim = shim_of(model);
  script_model *self = script_of(model);
  BACKEND_RETURN_IF_ERROR(check_arguments(model, &self->is_dictionary));
  torch_known inputs = {.names = json_array(),
                        .count = shim->argument_count(self->module),
                        .counted = !self->is_dictionary,
                        .any = self->is_dictionary};
  torch_known outputs = {.counted = false};
  for (size_t i = 0; i < inputs.count && !self->is_dictionary; i++)
    json_array_append_new(inputs.names, json_string(shim->argument_name(self->module, i)));
  TRITONSERVER_Error *error = torch_signature_make(model, &inputs, &outputs);
  json_decref(inputs.names);
  self->base.input_count = self->is_dictionary ? model->signature.inputs.count : inputs.count;
  return error;
}

static TRITONSERVER_Error *script_load(framework_model *model, int file, const char *path)
{
  script_model *self = calloc(1, sizeof(*self));
  model->state = self;
  if (self == NULL)
    return backend_error_no_memory("the model");
  self->base.kind = &torch_script;
  pthread_mutex_init(&self->lock, NULL);
  self->path = strdup(path);
  self->file = fcntl(file, F_DUPFD_CLOEXEC, 0);
  if (self->path == NULL || self->file < 0)
    return backend_error_no_memory("the model");
  BACKEND_RETURN_IF_ERROR(open_shim(torch_library_of(model)));
  BACKEND_RETURN_IF_ERROR(read_options(model));
  BACKEND_RETURN_IF_ERROR(set_interop_threads(model));
  BACKEND_RETURN_IF_ERROR(load_module(model, &self->module));
  return make_signature(model);
}

static void script_unload(framework_model *model)
{
  script_model *self = script_of(model);
  if (self->module != NULL)
    shim_of(model)->unload(self->module);
  if (self->file >= 0)
    close(self->file);
  pthread_mutex_destroy(&self->lock);
  free(self->path);
  free(self);
}

static TRITONSERVER_Error *script_instance_new(framework_instance *instance)
{
  script_model *self = script_of(instance->model);
  nereid_torch_module *module = NULL;
  TRITONSERVER_Error *error = NULL;
  pthread_mutex_lock(&self->lock); // guards the file's position
  if (self->module == NULL)
    error = load_module(instance->model, &module);
  else
    module = self->module;
  if (!self->shares)
    self->module = NULL;
  pthread_mutex_unlock(&self->lock);
  instance->state = module;
  return error;
}

static void script_instance_free(framework_instance *instance)
{
  if (instance->state != NULL && !script_of(instance->model)->shares)
    shim_of(instance->model)->unload(instance->state);
}

// ---- running ----

// The protocol's strings as one text, with the offset of each.
static TRITONSERVER_Error *set_strings(framework_run *run, const framework_input *input,
                                       nereid_torch_value *value)
{
  const char *at = input->data, *text = NULL;
  size_t left = input->byte_size, count = 0, length = 0, used = 0;
  BACKEND_RETURN_IF_ERROR(framework_element_count(input->name, input->dims, input->rank, &count));
  char *data = arena_allocate(&run->memory, left + 1);
  size_t *offsets = arena_allocate_array(&run->memory, count + 1, sizeof(*offsets));
  if (data == NULL || offsets == NULL)
    return backend_error_no_memory("a batch");
  for (size_t i = 0; i < count; i++) {
    if (!framework_next_string(&at, &left, &text, &length))
      return backend_error_invalid("input '%s': element %zu of %zu is cut off", input->name, i,
                                   count);
    offsets[i] = used;
    memcpy(data + used, text, length);
    used += length;
  }
  offsets[count] = used;
  value->strings = data;
  value->offsets = offsets;
  value->string_count = count;
  return NULL;
}

static TRITONSERVER_Error *set_value(framework_run *run, const framework_input *input,
                                     nereid_torch_value *value)
{
  *value = (nereid_torch_value){.name = input->name};
  if (input->name == NULL)
    return NULL;
  if (input->datatype == TRITONSERVER_TYPE_BYTES)
    return set_strings(run, input, value);
  value->type = torch_type_of(input->datatype);
  value->dims = input->dims;
  value->rank = input->rank;
  value->data = input->data;
  return NULL;
}

static TRITONSERVER_Error *script_compute(framework_run *run, torch_run *torch)
{
  const framework_model *model = run->instance->model;
  const script_model *self = script_of(model);
  const size_t count = self->base.input_count;
  nereid_torch_value *values = arena_allocate_array(&run->memory, count + 1, sizeof(*values));
  nereid_torch_result *result = NULL;
  if (values == NULL)
    return backend_error_no_memory("a batch");
  for (size_t i = 0; i < count; i++)
    BACKEND_RETURN_IF_ERROR(set_value(run, &torch->inputs[i], &values[i]));
  char *why = shim_of(model)->run(run->instance->state, &self->options, values, count,
                                  self->is_dictionary, &result);
  torch->state = result;
  if (why == NULL)
    return result != NULL ? NULL : backend_error_no_memory("a batch");
  TRITONSERVER_Error *error = backend_error_internal("PyTorch execute failure: %s", why);
  free(why);
  return error;
}

static TRITONSERVER_Error *script_read_output(framework_run *run, torch_run *torch, size_t index,
                                              framework_output *output)
{
  const torch_shim *shim = shim_of(run->instance->model);
  const framework_fetch *fetch = run->fetches[index];
  const size_t count = shim->result_count(torch->state);
  nereid_torch_value value;
  if (fetch->tensor->position >= count)
    return backend_error_invalid(
        "The output %s in the model configuration refers to an output index which doesn't exist. "
        "This model has %zu outputs",
        fetch->name, count);
  shim->result_get(torch->state, fetch->tensor->position, &value);
  if (value.strings == NULL)
    return torch_output_set(run, fetch->name, value.type, value.dims, value.strides, value.rank,
                            value.data, output);
  output->datatype = TRITONSERVER_TYPE_BYTES;
  output->shape = (backend_shape){.rank = 1, .dims = {(int64_t)value.string_count}};
  output->data = value.strings;
  output->offsets = value.offsets;
  return NULL;
}

static void script_end(framework_run *run, torch_run *torch)
{
  if (torch->state != NULL)
    shim_of(run->instance->model)->result_free(torch->state);
}

const torch_kind torch_script = {
    .file = "model.pt",
    .load = script_load,
    .unload = script_unload,
    .instance_new = script_instance_new,
    .instance_free = script_instance_free,
    .compute = script_compute,
    .read_output = script_read_output,
    .end = script_end,
};
