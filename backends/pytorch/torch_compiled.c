// SPDX-License-Identifier: Apache-2.0
// Models that PyTorch compiled ahead of time (AOTInductor). All instances run one container, which
// has as many models as there are instances and one copy of the weights.
#include "torch_model.h"

#include "backend_error.h"
#include "backend_log.h"
#include "base/container_of.h"
#include "torch_open.h"
#include "torch_package.h"
#include "torch_signature.h"
#include "torch_types.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

typedef struct torch_container torch_container;

// X(name, arguments): functions of the package. Each returns 0, or another number for an error.
#define PACKAGE_FUNCTIONS(X)                                                                       \
  X(ContainerCreateWithDevice,                                                                     \
    (torch_container * *made, size_t models, const char *device, const char *cubin_dir))           \
  X(ContainerDelete, (torch_container * container))                                                \
  X(ContainerGetNumInputs, (torch_container * container, size_t * count))                          \
  X(ContainerGetNumOutputs, (torch_container * container, size_t * count))                         \
  X(ContainerGetCallSpec, (torch_container * container, const char **in, const char **out))        \
  X(ContainerRun, (torch_container * container, torch_tensor * *inputs_taken, size_t input_count,  \
                   torch_tensor * *outputs, size_t output_count, void *stream, void *proxy))

typedef struct package_api {
#define PACKAGE_MEMBER(name, arguments) int32_t(*name) arguments;
  PACKAGE_FUNCTIONS(PACKAGE_MEMBER)
#undef PACKAGE_MEMBER
  int32_t (*UpdateConstantsFromBlob)(torch_container *container, const uint8_t *weights);
  // Old packages lack these.
  int32_t (*GetConstantsBlobSize)(torch_container *container, uint64_t *size);
  int32_t (*GetLastError)(const char **text);
} package_api;

typedef struct compiled_model {
  torch_model base;
  void *handle; // of dlopen
  package_api api;
  torch_container *container;
  void *weights; // mapped, if they are a file of their own
  size_t weights_size;
  size_t output_count;
  atomic_bool wants_two_rows; // compiled for batches of two or more
} compiled_model;

typedef struct compiled_run {
  torch_tensor **inputs;
  torch_tensor **outputs;
  bool doubled; // the single row was given twice
} compiled_run;

static compiled_model *compiled_of(const framework_model *model)
{
  return container_of(torch_model_of(model), compiled_model, base);
}

// The package's error text, on one line.
static TRITONSERVER_Error *failure(const framework_model *model, const char *what,
                                   TRITONSERVER_Error_Code code)
{
  const compiled_model *self = compiled_of(model);
  const char *text = NULL;
  if (self->api.GetLastError != NULL)
    self->api.GetLastError(&text);
  if (text == NULL || *text == '\0')
    text = torch_last_error(torch_library_of(model));
  return backend_error(code, "%s: %.*s", what, (int)(strcspn(text, "\n")), text);
}

// ---- loading ----

static TRITONSERVER_Error *read_functions(compiled_model *self, const char *path)
{
  const char *missing = NULL;
  void *symbol;
#define PACKAGE_READ(function, arguments)                                                          \
  symbol = dlsym(self->handle, "AOTInductorModel" #function);                                      \
  memcpy(&self->api.function, &symbol, sizeof(symbol));                                            \
  if (symbol == NULL && missing == NULL)                                                           \
    missing = "AOTInductorModel" #function;
  PACKAGE_FUNCTIONS(PACKAGE_READ)
#undef PACKAGE_READ
  symbol = dlsym(self->handle, "AOTInductorModelUpdateConstantsFromBlob");
  memcpy(&self->api.UpdateConstantsFromBlob, &symbol, sizeof(symbol));
  symbol = dlsym(self->handle, "AOTInductorModelContainerGetConstantsBlobSize");
  memcpy(&self->api.GetConstantsBlobSize, &symbol, sizeof(symbol));
  symbol = dlsym(self->handle, "AOTInductorGetLastError");
  memcpy(&self->api.GetLastError, &symbol, sizeof(symbol));
  return missing == NULL
             ? NULL
             : backend_error_invalid(
                   "'%s': its shared object is no compiled model of PyTorch's: it has no %s", path,
                   missing);
}

static TRITONSERVER_Error *open_object(framework_model *model, const torch_package *package,
                                       const char *path)
{
  compiled_model *self = compiled_of(model);
  bool check = true, checks = false;
  BACKEND_RETURN_IF_ERROR(framework_read_switch(model, "CHECK_INPUTS", &check));
  BACKEND_RETURN_IF_ERROR(torch_package_check(package, &torch_own_machine, path));
  BACKEND_RETURN_IF_ERROR(torch_package_prepare(package, path, check, &checks));
  if (!checks)
    BACKEND_LOG_WARN("model '%s': the package was compiled without checks of its inputs: what the "
                     "configuration says of them must be right",
                     model->name);
  self->handle = torch_open_descriptor(package->library, RTLD_NOW | RTLD_LOCAL);
  if (self->handle == NULL)
    return backend_error_invalid("'%s' does not run with PyTorch %s (a package runs with the "
                                 "version that made it, and newer ones): %s",
                                 path, torch_library_of(model)->version, dlerror());
  return read_functions(self, path);
}

static size_t instance_count(const json_t *config)
{
  const json_t *groups = json_object_get(config, "instance_group");
  size_t count = 0;
  for (size_t i = 0; i < json_array_size(groups); i++)
    count += (size_t)json_integer_value(json_object_get(json_array_get(groups, i), "count"));
  return count > 0 ? count : 1;
}

static TRITONSERVER_Error *map_weights(compiled_model *self, const torch_package *package,
                                       const char *path)
{
  struct stat status;
  if (package->weights < 0)
    return NULL;
  if (self->api.UpdateConstantsFromBlob == NULL || fstat(package->weights, &status) != 0 ||
      status.st_size == 0)
    return backend_error_invalid("'%s' has weights that its shared object does not take", path);
  self->weights_size = (size_t)status.st_size;
  self->weights =
      mmap(NULL, self->weights_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, package->weights, 0);
  if (self->weights != MAP_FAILED)
    return NULL;
  self->weights = NULL;
  return backend_error_no_memory(path);
}

// The package reads as many bytes as it was compiled for, so the file must have exactly these.
static TRITONSERVER_Error *give_weights(framework_model *model, const char *path)
{
  compiled_model *self = compiled_of(model);
  uint64_t wanted = 0;
  if (self->api.GetConstantsBlobSize != NULL &&
      self->api.GetConstantsBlobSize(self->container, &wanted) == 0 && wanted > self->weights_size)
    return backend_error_invalid("'%s' has %zu bytes of weights, its shared object takes %llu",
                                 path, self->weights_size, (unsigned long long)wanted);
  return self->api.UpdateConstantsFromBlob(self->container, self->weights) == 0
             ? NULL
             : failure(model, path, TRITONSERVER_ERROR_INTERNAL);
}

static TRITONSERVER_Error *make_container(framework_model *model, const torch_package *package,
                                          const char *path)
{
  compiled_model *self = compiled_of(model);
  BACKEND_RETURN_IF_ERROR(open_object(model, package, path));
  BACKEND_RETURN_IF_ERROR(map_weights(self, package, path));
  if (self->api.ContainerCreateWithDevice(&self->container, instance_count(model->config), "cpu",
                                          NULL) != 0) {
    self->container = NULL;
    return failure(model, path, TRITONSERVER_ERROR_INTERNAL);
  }
  return self->weights == NULL ? NULL : give_weights(model, path);
}

static TRITONSERVER_Error *make_signature(framework_model *model)
{
  compiled_model *self = compiled_of(model);
  const char *in = NULL, *out = NULL;
  if (self->api.ContainerGetNumInputs(self->container, &self->base.input_count) != 0 ||
      self->api.ContainerGetNumOutputs(self->container, &self->output_count) != 0 ||
      self->api.ContainerGetCallSpec(self->container, &in, &out) != 0)
    return failure(model, model->name, TRITONSERVER_ERROR_INTERNAL);
  torch_known inputs = {torch_input_names(in), self->base.input_count, true, false, true};
  torch_known outputs = {torch_output_names(out), self->output_count, true, false, true};
  TRITONSERVER_Error *error = torch_signature_make(model, &inputs, &outputs);
  json_decref(inputs.names);
  json_decref(outputs.names);
  return error;
}

static TRITONSERVER_Error *refuse_strings(framework_model *model)
{
  for (size_t i = 0; i < model->feed_count; i++)
    if (model->feeds[i].datatype == TRITONSERVER_TYPE_BYTES)
      return backend_error_internal(
          "unsupported datatype TYPE_STRING for input '%s' for model '%s'", model->feeds[i].name,
          model->name);
  return NULL;
}

static TRITONSERVER_Error *compiled_load(framework_model *model, int file, const char *path)
{
  compiled_model *self = calloc(1, sizeof(*self));
  torch_package package = TORCH_PACKAGE_EMPTY;
  model->state = self;
  if (self == NULL)
    return backend_error_no_memory("the model");
  self->base.kind = &torch_compiled;
  if (!torch_library_of(model)->cxx11)
    return backend_error(
        TRITONSERVER_ERROR_UNSUPPORTED,
        "PyTorch %s cannot run packages of compiled models: it has the old std::string, newer ones "
        "have that of C++11",
        torch_library_of(model)->version);
  TRITONSERVER_Error *error = torch_package_read(file, path, &package);
  if (error == NULL)
    error = make_container(model, &package, path);
  torch_package_fini(&package);
  return error != NULL ? error : make_signature(model);
}

static void compiled_unload(framework_model *model)
{
  compiled_model *self = compiled_of(model);
  if (self->container != NULL)
    self->api.ContainerDelete(self->container);
  if (self->handle != NULL)
    dlclose(self->handle);
  if (self->weights != NULL)
    munmap(self->weights, self->weights_size);
  free(self);
}

// ---- running ----

// Doubles the row, for a package that refuses a single row.
static TRITONSERVER_Error *double_row(framework_run *run, framework_input *input)
{
  int64_t *dims = arena_allocate_array(&run->memory, input->rank, sizeof(*dims));
  char *data = arena_allocate(&run->memory, 2 * input->byte_size);
  if (dims == NULL || data == NULL)
    return backend_error_no_memory("a batch");
  memcpy(dims, input->dims, input->rank * sizeof(*dims));
  dims[0] = 2;
  for (size_t i = 0; i < 2 && input->byte_size > 0; i++)
    memcpy(data + i * input->byte_size, input->data, input->byte_size);
  input->byte_size *= 2;
  input->dims = dims;
  input->data = data;
  return NULL;
}

static TRITONSERVER_Error *make_tensor(framework_run *run, const framework_input *given, bool twice,
                                       torch_tensor **tensor)
{
  const torch_library *torch = torch_library_of(run->instance->model);
  int64_t strides[BACKEND_MAX_RANK];
  framework_input input = *given;
  if (twice && input.rank > 0 && input.dims[0] == 1)
    BACKEND_RETURN_IF_ERROR(double_row(run, &input));
  torch_strides(input.dims, input.rank, strides);
  if (torch->api.create_tensor_from_blob((void *)input.data, (int64_t)input.rank, input.dims,
                                         strides, 0, torch_type_of(input.datatype), 0, 0,
                                         tensor) == 0)
    return NULL;
  *tensor = NULL;
  return backend_error_internal("input '%s': %s", input.name, torch_last_error(torch));
}

static void drop(const torch_library *torch, torch_tensor **tensors, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    if (tensors[i] != NULL)
      torch->api.delete_tensor_object(tensors[i]);
    tensors[i] = NULL;
  }
}

static TRITONSERVER_Error *run_once(framework_run *run, torch_run *torch, bool twice)
{
  const framework_model *model = run->instance->model;
  const torch_library *library = torch_library_of(model);
  const compiled_model *self = compiled_of(model);
  compiled_run *state = torch->state;
  state->doubled = twice;
  for (size_t i = 0; i < self->base.input_count; i++) {
    if (torch->inputs[i].name == NULL)
      return backend_error_invalid("input %zu of model '%s' is missing", i, model->name);
    BACKEND_RETURN_IF_ERROR(make_tensor(run, &torch->inputs[i], twice, &state->inputs[i]));
  }
  library->api.grad_mode_set_enabled(false);
  if (self->api.ContainerRun(self->container, state->inputs, self->base.input_count, state->outputs,
                             self->output_count, NULL, NULL) == 0)
    return NULL;
  drop(library, state->inputs, self->base.input_count); // unless the package has taken them
  return failure(model, "PyTorch execute failure", TRITONSERVER_ERROR_INTERNAL);
}

// torch.export assumes at least two rows if the example had two. The package then refuses one row
// with this text.
static bool says_too_few(TRITONSERVER_Error *error)
{
  return strstr(TRITONSERVER_ErrorMessage(error), "dim value is too small at 0, expected it to be "
                                                  ">= 2, but got: 1") != NULL;
}

static TRITONSERVER_Error *compiled_compute(framework_run *run, torch_run *torch)
{
  const framework_model *model = run->instance->model;
  compiled_model *self = compiled_of(model);
  compiled_run *state = arena_allocate_array(&run->memory, 1, sizeof(*state));
  if (state == NULL)
    return backend_error_no_memory("a batch");
  state->inputs =
      arena_allocate_array(&run->memory, self->base.input_count + 1, sizeof(*state->inputs));
  state->outputs =
      arena_allocate_array(&run->memory, self->output_count + 1, sizeof(*state->outputs));
  if (state->inputs == NULL || state->outputs == NULL)
    return backend_error_no_memory("a batch");
  torch->state = state;
  const bool single = model->max_batch_size > 0 && run->rows == 1;
  const bool twice = single && atomic_load_explicit(&self->wants_two_rows, memory_order_relaxed);
  TRITONSERVER_Error *error = run_once(run, torch, twice);
  if (error == NULL || !single || twice || !says_too_few(error))
    return error;
  TRITONSERVER_ErrorDelete(error);
  atomic_store_explicit(&self->wants_two_rows, true, memory_order_relaxed);
  return run_once(run, torch, true);
}

static TRITONSERVER_Error *compiled_read_output(framework_run *run, torch_run *torch, size_t index,
                                                framework_output *output)
{
  const torch_library *library = torch_library_of(run->instance->model);
  const torch_api *api = &library->api;
  const framework_fetch *fetch = run->fetches[index];
  const compiled_run *state = torch->state;
  torch_tensor *tensor = state->outputs[fetch->tensor->position];
  int64_t rank = 0, *dims = NULL, *strides = NULL;
  int32_t type = -1, device = 0;
  void *data = NULL;
  if (tensor == NULL || api->get_dim(tensor, &rank) != 0 || api->get_sizes(tensor, &dims) != 0 ||
      api->get_strides(tensor, &strides) != 0 || api->get_dtype(tensor, &type) != 0 ||
      api->get_device_type(tensor, &device) != 0 || api->get_data_ptr(tensor, &data) != 0)
    return backend_error_internal("output '%s': %s", fetch->name, torch_last_error(library));
  if (device != 0)
    return backend_error(TRITONSERVER_ERROR_UNSUPPORTED, "output '%s' is not in the CPU's memory",
                         fetch->name);
  BACKEND_RETURN_IF_ERROR(
      torch_output_set(run, fetch->name, type, dims, strides, (size_t)rank, data, output));
  if (state->doubled && output->shape.dims[0] == 2)
    output->shape.dims[0] = 1;
  return NULL;
}

static void compiled_end(framework_run *run, torch_run *torch)
{
  const framework_model *model = run->instance->model;
  const compiled_model *self = compiled_of(model);
  const compiled_run *state = torch->state;
  if (state == NULL)
    return;
  drop(torch_library_of(model), state->inputs, self->base.input_count);
  drop(torch_library_of(model), state->outputs, self->output_count);
}

const torch_kind torch_compiled = {
    .file = "model.pt2",
    .load = compiled_load,
    .prepare = refuse_strings,
    .unload = compiled_unload,
    .compute = compiled_compute,
    .read_output = compiled_read_output,
    .end = compiled_end,
};
