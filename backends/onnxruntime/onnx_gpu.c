// SPDX-License-Identifier: Apache-2.0
// Bindings and graphs.
#include "onnx_gpu.h"

#include "backend_error.h"
#include "backend_log.h"
#include "onnx_provider_options.h"
#include "onnx_types.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLACE_ALIGNMENT 256 // as the device's own allocations

// A tensor's memory, the same in all graphs.
typedef struct graph_place {
  const framework_tensor *tensor;
  size_t offset;
} graph_place;

struct onnx_gpu {
  ort_memory_info *memory;
  ort_binding *binding;
  bool captures;       // graphs are captured: each run names its graph
  backend_block block; // memory of all places; without it there are no graphs
  graph_place *places;
  size_t place_count;
};

static const ort_runtime *runtime_of(const framework_run *run)
{
  return onnx_runtime_of(run->instance->model);
}

static bool has_graphs(const onnx_gpu *gpu)
{
  return gpu->block.memory != NULL;
}

// ---- places ----

// Bytes of the tensor with `rows` rows; false when they vary between runs.
static bool tensor_size(const framework_model *model, const framework_tensor *tensor, int64_t rows,
                        backend_shape *shape, size_t *size)
{
  *shape = tensor->shape;
  if (tensor->any_rank || tensor->any_type || tensor->datatype == TRITONSERVER_TYPE_BYTES)
    return false;
  if (model->max_batch_size > 0 && shape->rank > 0 && shape->dims[0] < 0)
    shape->dims[0] = rows;
  return backend_element_count(shape->dims, shape->rank, size) &&
         !__builtin_mul_overflow(*size, (size_t)TRITONSERVER_DataTypeByteSize(tensor->datatype),
                                 size);
}

// False: the tensor cannot be in a graph.
static bool add_place(onnx_gpu *self, const framework_model *model, const framework_tensor *tensor,
                      size_t *total)
{
  const int64_t rows = model->max_batch_size > 0 ? model->max_batch_size : 1;
  backend_shape shape;
  size_t size = 0;
  if (tensor == NULL || !tensor_size(model, tensor, rows, &shape, &size))
    return false;
  self->places[self->place_count++] = (graph_place){tensor, *total};
  size += PLACE_ALIGNMENT - 1;
  return !__builtin_add_overflow(*total, size - size % PLACE_ALIGNMENT, total);
}

// The tensor that prevents graphs, or NULL.
static const char *plan_places(onnx_gpu *self, const framework_model *model, size_t *total)
{
  *total = PLACE_ALIGNMENT; // never 0
  for (size_t i = 0; i < model->feed_count; i++) {
    const framework_feed *feed = &model->feeds[i];
    if (feed->optional || feed->ragged || !add_place(self, model, feed->tensor, total))
      return feed->name;
  }
  for (size_t i = 0; i < model->fetch_count; i++)
    if (model->fetches[i].scatter != NULL ||
        !add_place(self, model, model->fetches[i].tensor, total))
      return model->fetches[i].name;
  return model->batch_feed_count > 0 ? model->batch_feeds[0].input.source : NULL;
}

static TRITONSERVER_Error *make_places(framework_instance *instance, onnx_gpu *self)
{
  const framework_model *model = instance->model;
  size_t total = 0;
  self->captures = onnx_wants_graphs(model->config);
  if (!self->captures)
    return NULL;
  self->places = calloc(model->feed_count + model->fetch_count + 1, sizeof(*self->places));
  if (self->places == NULL)
    return backend_error_no_memory("CUDA graphs");
  const char *tensor = plan_places(self, model, &total);
  if (tensor == NULL)
    return backend_device_take(instance->device, total, &self->block);
  BACKEND_LOG_WARN("model '%s' runs without CUDA graphs: they need tensors whose shapes are known "
                   "but for the batch, and '%s' is none",
                   model->name, tensor);
  return NULL;
}

static void *place_of(const onnx_gpu *self, const framework_tensor *tensor)
{
  for (size_t i = 0; i < self->place_count; i++)
    if (self->places[i].tensor == tensor)
      return (char *)self->block.memory + self->places[i].offset;
  return NULL;
}

// ---- instances ----

TRITONSERVER_Error *onnx_gpu_new(framework_instance *instance, onnx_instance *self)
{
  const ort_runtime *runtime = onnx_runtime_of(instance->model);
  const int device = instance->device->ordinal;
  onnx_gpu *gpu = calloc(1, sizeof(*gpu));
  self->gpu = gpu;
  if (gpu == NULL)
    return backend_error_no_memory("a model instance");
  BACKEND_RETURN_IF_ERROR(
      onnx_model_gpu_session(instance->model, instance->device, &self->session));
  ORT_RETURN_IF_ERROR(runtime, runtime->gpu.CreateMemoryInfo("Cuda", ORT_ALLOCATOR_ARENA, device,
                                                             ORT_MEMORY_DEFAULT, &gpu->memory));
  ORT_RETURN_IF_ERROR(runtime, runtime->gpu.CreateIoBinding(self->session, &gpu->binding));
  BACKEND_RETURN_IF_ERROR(onnx_run_options(instance->model, device, &self->options));
  return make_places(instance, gpu);
}

void onnx_gpu_free(framework_instance *instance, onnx_instance *self)
{
  const ort_runtime *runtime = onnx_runtime_of(instance->model);
  onnx_gpu *gpu = self->gpu;
  if (gpu == NULL)
    return;
  if (gpu->binding != NULL)
    runtime->gpu.ReleaseIoBinding(gpu->binding);
  if (self->session != NULL)
    runtime->api.ReleaseSession(self->session);
  if (gpu->memory != NULL)
    runtime->api.ReleaseMemoryInfo(gpu->memory);
  backend_device_give_back(instance->device, &gpu->block);
  free(gpu->places);
  free(gpu);
}

// ---- a run ----

// A replayed graph gets no shapes and its places do not grow, so larger inputs are refused. The
// configuration may allow more than the model.
static TRITONSERVER_Error *check_shape(const framework_run *run, const framework_input *input)
{
  char given[BACKEND_SHAPE_TEXT], wanted[BACKEND_SHAPE_TEXT];
  backend_shape found, shape;
  size_t size = 0;
  BACKEND_RETURN_IF_ERROR(backend_shape_set(&found, input->dims, input->rank, input->name));
  if (tensor_size(run->instance->model, input->tensor, run->rows, &shape, &size) &&
      size == input->byte_size && shape.rank == found.rank &&
      memcmp(shape.dims, found.dims, shape.rank * sizeof(*shape.dims)) == 0)
    return NULL;
  return backend_error_invalid("input '%s' has shape %s, the model's CUDA graph takes %s",
                               input->name, backend_shape_text(&found, given),
                               backend_shape_text(&shape, wanted));
}

TRITONSERVER_Error *onnx_gpu_input(framework_run *run, const framework_input *input,
                                   const ort_memory_info **memory, const void **data)
{
  const onnx_gpu *self = onnx_instance_of(run)->gpu;
  const backend_device *device = run->instance->device;
  const gpu_place here = backend_device_place(device);
  bool done = false;
  *memory = self->memory;
  *data = input->data;
  if (!has_graphs(self))
    return NULL;
  void *place = place_of(self, input->tensor);
  if (place == NULL)
    return backend_error_internal("input '%s' has no place in a CUDA graph", input->name);
  BACKEND_RETURN_IF_ERROR(check_shape(run, input));
  *data = place;
  backend_transfer_expect(run->instance->transfer);
  return input->byte_size == 0
             ? NULL
             : backend_error_of(gpu_copy(place, here, input->data, here, input->byte_size,
                                         device->stream, input->name, &done));
}

static TRITONSERVER_Error *bind_memory(framework_run *run, const framework_fetch *fetch, void *data,
                                       size_t byte_size, const int64_t *dims, size_t rank,
                                       ort_value **value)
{
  const ort_runtime *runtime = runtime_of(run);
  const onnx_gpu *self = onnx_instance_of(run)->gpu;
  ORT_RETURN_IF_ERROR(runtime, runtime->api.CreateTensorWithDataAsOrtValue(
                                   self->memory, data, byte_size, dims, rank,
                                   onnx_element_type(fetch->datatype), value));
  return ort_error(runtime, runtime->gpu.BindOutput(self->binding, fetch->name, *value));
}

// Binds all outputs, wanted or not, because a graph writes the outputs that it was captured with.
static TRITONSERVER_Error *bind_graph_outputs(framework_run *run)
{
  const framework_model *model = run->instance->model;
  const onnx_gpu *self = onnx_instance_of(run)->gpu;
  onnx_run *state = run->state;
  for (size_t i = 0; i < model->fetch_count; i++) {
    const framework_fetch *fetch = &model->fetches[i];
    backend_shape shape;
    size_t size = 0;
    if (!tensor_size(model, fetch->tensor, run->rows, &shape, &size))
      return backend_error_internal("output '%s' has no place in a CUDA graph", fetch->name);
    BACKEND_RETURN_IF_ERROR(bind_memory(run, fetch, place_of(self, fetch->tensor), size, shape.dims,
                                        shape.rank, &state->bound[i]));
  }
  for (size_t k = 0; k < run->fetch_count; k++)
    state->fetched[k] = state->bound[run->fetches[k] - model->fetches];
  return NULL;
}

// Binds the output to the response's memory if that is on the device, else to memory of ONNX
// Runtime.
static TRITONSERVER_Error *bind_output(framework_run *run, size_t index)
{
  const ort_runtime *runtime = runtime_of(run);
  const onnx_gpu *self = onnx_instance_of(run)->gpu;
  const framework_fetch *fetch = run->fetches[index];
  const framework_room *room = &run->rooms[index];
  const bool strings = fetch->datatype == TRITONSERVER_TYPE_BYTES;
  if (room->device.data != NULL && room->device.place.kind == GPU_MEMORY_DEVICE &&
      room->device.place.device == run->instance->device->ordinal)
    return bind_memory(run, fetch, room->device.data, room->byte_size, room->dims, room->rank,
                       &((onnx_run *)run->state)->bound[index]);
  return ort_error(runtime,
                   runtime->gpu.BindOutputToDevice(self->binding, fetch->name,
                                                   strings ? runtime->cpu_memory : self->memory));
}

static TRITONSERVER_Error *bind(framework_run *run)
{
  const ort_runtime *runtime = runtime_of(run);
  const onnx_gpu *self = onnx_instance_of(run)->gpu;
  onnx_run *state = run->state;
  for (size_t i = 0; i < state->feed_count; i++)
    ORT_RETURN_IF_ERROR(
        runtime, runtime->gpu.BindInput(self->binding, state->feed_names[i], state->feeds[i]));
  const size_t most = run->instance->model->fetch_count + run->fetch_count + 1;
  state->bound = arena_allocate_array(&run->memory, most, sizeof(*state->bound));
  if (state->bound == NULL)
    return backend_error_no_memory("a batch");
  memset(state->bound, 0, most * sizeof(*state->bound));
  state->bound_most = most;
  if (has_graphs(self))
    return bind_graph_outputs(run);
  for (size_t k = 0; k < run->fetch_count; k++)
    BACKEND_RETURN_IF_ERROR(bind_output(run, k));
  return NULL;
}

// In the order of binding.
static TRITONSERVER_Error *fetch(framework_run *run)
{
  const ort_runtime *runtime = runtime_of(run);
  onnx_run *state = run->state;
  ort_value **values = NULL;
  size_t count = 0;
  if (has_graphs(onnx_instance_of(run)->gpu) || run->fetch_count == 0)
    return NULL;
  ORT_RETURN_IF_ERROR(runtime,
                      runtime->gpu.GetBoundOutputValues(onnx_instance_of(run)->gpu->binding,
                                                        runtime->allocator, &values, &count));
  for (size_t k = 0; k < count; k++)
    if (k < run->fetch_count)
      state->fetched[k] = values[k];
    else
      runtime->api.ReleaseValue(values[k]);
  ORT_RETURN_IF_ERROR(runtime, runtime->api.AllocatorFree(runtime->allocator, values));
  return count == run->fetch_count
             ? NULL
             : backend_error_internal("Retrieved output count is not equal to expected count.");
}

// Each number of rows has its graph; -1 is none, 0 is ONNX Runtime's own.
static TRITONSERVER_Error *options_of_run(framework_run *run, ort_run_options **options)
{
  const ort_runtime *runtime = runtime_of(run);
  const framework_model *model = run->instance->model;
  char id[32];
  const bool graphs = has_graphs(onnx_instance_of(run)->gpu);
  const int64_t rows = model->max_batch_size > 0 ? run->rows : 1;
  snprintf(id, sizeof(id), "%lld", graphs ? (long long)rows : -1LL);
  BACKEND_RETURN_IF_ERROR(onnx_run_options(model, run->instance->device->ordinal, options));
  return ort_error(runtime, runtime->api.AddRunConfigEntry(*options, "gpu_graph_id", id));
}

static TRITONSERVER_Error *enqueue(framework_run *run)
{
  const ort_runtime *runtime = runtime_of(run);
  const onnx_instance *instance = onnx_instance_of(run);
  ort_run_options *own = NULL;
  if (instance->gpu->captures) {
    TRITONSERVER_Error *error = options_of_run(run, &own);
    if (error != NULL) {
      if (own != NULL)
        runtime->api.ReleaseRunOptions(own);
      return error;
    }
  }
  backend_transfer_expect(run->instance->transfer);
  TRITONSERVER_Error *error = ort_error(
      runtime, runtime->gpu.RunWithBinding(instance->session, own != NULL ? own : instance->options,
                                           instance->gpu->binding));
  if (own != NULL)
    runtime->api.ReleaseRunOptions(own);
  return error;
}

TRITONSERVER_Error *onnx_gpu_compute(framework_run *run)
{
  BACKEND_RETURN_IF_ERROR(bind(run));
  BACKEND_RETURN_IF_ERROR(enqueue(run));
  return fetch(run);
}

void onnx_gpu_end(framework_run *run)
{
  const ort_runtime *runtime = runtime_of(run);
  const onnx_gpu *self = onnx_instance_of(run)->gpu;
  onnx_run *state = run->state;
  if (self == NULL)
    return;
  runtime->gpu.ClearBoundInputs(self->binding);
  runtime->gpu.ClearBoundOutputs(self->binding);
  if (state->bound == NULL)
    return;
  if (has_graphs(self)) // the bound outputs are kept
    memset(state->fetched, 0, run->fetch_count * sizeof(*state->fetched));
  for (size_t i = 0; i < state->bound_most; i++)
    if (state->bound[i] != NULL)
      runtime->api.ReleaseValue(state->bound[i]);
}
