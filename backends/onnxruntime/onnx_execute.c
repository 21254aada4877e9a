// SPDX-License-Identifier: Apache-2.0
// One run of the session; see onnx_model.h and framework.h.
#include "onnx_model.h"

#include "backend_error.h"
#include "onnx_gpu.h"
#include "onnx_types.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const ort_runtime *runtime_of(const framework_run *run)
{
  return onnx_runtime_of(run->instance->model);
}

// ---- instances ----

TRITONSERVER_Error *onnx_instance_new(framework_instance *instance)
{
  onnx_instance *self = calloc(1, sizeof(*self));
  instance->state = self;
  if (self == NULL)
    return backend_error_no_memory("a model instance");
  if (instance->device != NULL)
    return onnx_gpu_new(instance, self);
  BACKEND_RETURN_IF_ERROR(onnx_model_cpu_session(instance->model, &self->session));
  return onnx_run_options(instance->model, -1, &self->options);
}

void onnx_instance_free(framework_instance *instance)
{
  const ort_api *api = &onnx_runtime_of(instance->model)->api;
  onnx_instance *self = instance->state;
  if (self == NULL)
    return;
  if (self->options != NULL)
    api->ReleaseRunOptions(self->options);
  onnx_gpu_free(instance, self);
  free(self);
}

// ---- inputs ----

TRITONSERVER_Error *onnx_run_begin(framework_run *run)
{
  arena *m = &run->memory;
  onnx_run *self = arena_allocate_array(m, 1, sizeof(*self));
  if (self == NULL)
    return backend_error_no_memory("a batch");
  const size_t feeds = run->input_most, fetches = run->fetch_count;
  *self = (onnx_run){.feed_names = arena_allocate_array(m, feeds + 1, sizeof(char *)),
                     .feeds = arena_allocate_array(m, feeds + 1, sizeof(ort_value *)),
                     .fetch_names = arena_allocate_array(m, fetches + 1, sizeof(char *)),
                     .fetched = arena_allocate_array(m, fetches + 1, sizeof(ort_value *))};
  if (self->feed_names == NULL || self->feeds == NULL || self->fetch_names == NULL ||
      self->fetched == NULL)
    return backend_error_no_memory("a batch");
  for (size_t i = 0; i < fetches; i++) {
    self->fetch_names[i] = run->fetches[i]->name;
    self->fetched[i] = NULL;
  }
  run->state = self;
  return NULL;
}

// ONNX Runtime copies each string into its own memory.
static TRITONSERVER_Error *make_strings(const ort_runtime *runtime, const framework_input *input,
                                        ort_value **value)
{
  const char *at = input->data, *text = NULL;
  size_t left = input->byte_size, count = 0, length = 0;
  BACKEND_RETURN_IF_ERROR(framework_element_count(input->name, input->dims, input->rank, &count));
  ORT_RETURN_IF_ERROR(runtime,
                      runtime->api.CreateTensorAsOrtValue(runtime->allocator, input->dims,
                                                          input->rank, ORT_ELEMENT_STRING, value));
  for (size_t i = 0; i < count; i++) {
    char *room = NULL;
    if (!framework_next_string(&at, &left, &text, &length))
      return backend_error_invalid("input '%s': element %zu of %zu is cut off", input->name, i,
                                   count);
    ORT_RETURN_IF_ERROR(runtime,
                        runtime->api.GetResizedStringTensorElementBuffer(*value, i, length, &room));
    if (length > 0)
      memcpy(room, text, length);
  }
  return NULL;
}

TRITONSERVER_Error *onnx_run_add_input(framework_run *run, const framework_input *input)
{
  const ort_runtime *runtime = runtime_of(run);
  onnx_run *self = run->state;
  assert(self->feed_count < run->input_most);
  ort_value **value = &self->feeds[self->feed_count];
  *value = NULL;
  self->feed_names[self->feed_count++] = input->name;
  if (input->datatype == TRITONSERVER_TYPE_BYTES)
    return make_strings(runtime, input, value);
  const void *data = input->data;
  const ort_memory_info *memory = runtime->cpu_memory;
  if (input->on_device)
    BACKEND_RETURN_IF_ERROR(onnx_gpu_input(run, input, &memory, &data));
  return ort_error(runtime, runtime->api.CreateTensorWithDataAsOrtValue(
                                memory, (void *)data, input->byte_size, input->dims, input->rank,
                                onnx_element_type(input->datatype), value));
}

// ---- the run ----

TRITONSERVER_Error *onnx_run_compute(framework_run *run)
{
  const ort_runtime *runtime = runtime_of(run);
  onnx_run *self = run->state;
  const onnx_instance *instance = onnx_instance_of(run);
  if (instance->gpu != NULL)
    return onnx_gpu_compute(run);
  return ort_error(runtime,
                   runtime->api.Run(instance->session, instance->options, self->feed_names,
                                    (const ort_value *const *)self->feeds, self->feed_count,
                                    self->fetch_names, run->fetch_count, self->fetched));
}

void onnx_run_end(framework_run *run)
{
  const ort_api *api = &runtime_of(run)->api;
  const onnx_run *self = run->state;
  if (self == NULL)
    return;
  onnx_gpu_end(run);
  for (size_t i = 0; i < self->feed_count; i++)
    if (self->feeds[i] != NULL)
      api->ReleaseValue(self->feeds[i]);
  for (size_t i = 0; i < run->fetch_count; i++)
    if (self->fetched[i] != NULL)
      api->ReleaseValue(self->fetched[i]);
}

// ---- outputs ----

static TRITONSERVER_Error *read_info(const ort_runtime *runtime, const ort_value *value,
                                     const char *name, framework_output *output)
{
  const ort_api *api = &runtime->api;
  ort_tensor_info *info = NULL;
  ort_element_type type = ORT_ELEMENT_UNDEFINED;
  size_t rank = 0;
  ORT_RETURN_IF_ERROR(runtime, api->GetTensorTypeAndShape(value, &info));
  TRITONSERVER_Error *error = ort_error(runtime, api->GetTensorElementType(info, &type));
  if (error == NULL)
    error = ort_error(runtime, api->GetDimensionsCount(info, &rank));
  if (error == NULL && rank > BACKEND_MAX_RANK)
    error =
        backend_error(TRITONSERVER_ERROR_UNSUPPORTED, "output '%s' has %zu dimensions", name, rank);
  if (error == NULL)
    error = ort_error(runtime, api->GetDimensions(info, output->shape.dims, rank));
  api->ReleaseTensorTypeAndShapeInfo(info);
  output->shape.rank = rank;
  output->datatype = onnx_datatype(type);
  return error;
}

static TRITONSERVER_Error *read_strings(framework_run *run, const ort_value *value,
                                        const char *name, framework_output *output)
{
  const ort_runtime *runtime = runtime_of(run);
  size_t size = 0, count = 0;
  if (!backend_element_count(output->shape.dims, output->shape.rank, &count))
    return backend_error_internal("output '%s' has an impossible shape", name);
  ORT_RETURN_IF_ERROR(runtime, runtime->api.GetStringTensorDataLength(value, &size));
  char *strings = arena_allocate_array(&run->memory, size + 1, 1);
  size_t *offsets = arena_allocate_array(&run->memory, count + 1, sizeof(*offsets));
  if (strings == NULL || offsets == NULL)
    return backend_error_no_memory("an output");
  ORT_RETURN_IF_ERROR(runtime,
                      runtime->api.GetStringTensorContent(value, strings, size, offsets, count));
  offsets[count] = size;
  output->data = strings;
  output->offsets = offsets;
  return NULL;
}

TRITONSERVER_Error *onnx_run_read_output(framework_run *run, size_t index, framework_output *output)
{
  const ort_runtime *runtime = runtime_of(run);
  ort_value *value = ((onnx_run *)run->state)->fetched[index];
  const char *name = run->fetches[index]->name;
  BACKEND_RETURN_IF_ERROR(read_info(runtime, value, name, output));
  if (output->datatype == TRITONSERVER_TYPE_BYTES)
    return read_strings(run, value, name, output);
  void *data = NULL;
  BACKEND_RETURN_IF_ERROR(ort_error(runtime, runtime->api.GetTensorMutableData(value, &data)));
  output->data = data;
  output->on_device = onnx_instance_of(run)->gpu != NULL; // where all except strings are bound
  return NULL;
}
