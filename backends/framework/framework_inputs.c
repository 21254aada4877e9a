// SPDX-License-Identifier: Apache-2.0
// The inputs of a run: each combines those of all requests (backend_gather: no copy for a batch of
// one). Used on the instance's thread.
#include "framework_parts.h"

#include "backend_error.h"

#include <assert.h>

static bool has_input(TRITONBACKEND_Request *request, const char *name)
{
  TRITONBACKEND_Input *input = NULL;
  TRITONSERVER_Error *error = TRITONBACKEND_RequestInput(request, name, &input);
  TRITONSERVER_ErrorDelete(error);
  return error == NULL;
}

bool framework_find_inputs(batch_run *self, const framework_feed *feed)
{
  bool present = false;
  for (uint32_t i = 0; i < self->batch.count; i++) {
    backend_input *input = &self->inputs[i];
    TRITONBACKEND_Request *request = self->batch.requests[i];
    *input = (backend_input){0};
    if (!backend_batch_alive(&self->batch, i) ||
        (feed->optional && !has_input(request, feed->name)))
      continue;
    TRITONSERVER_Error *error =
        backend_input_find(request, feed->name, self->run.instance->host_policy, input);
    if (error != NULL) {
      input->input = NULL;
      backend_batch_fail(&self->batch, i, error);
    } else {
      present = true;
    }
  }
  return present;
}

// The shape of the whole tensor: the first request's shape with the rows of all.
static TRITONSERVER_Error *tensor_shape(const batch_run *self, const framework_feed *feed,
                                        backend_shape *shape)
{
  const backend_input *first = NULL;
  int64_t rows = 0, elements = 0;
  for (uint32_t i = 0; i < self->batch.count; i++) {
    const backend_input *input = &self->inputs[i];
    if (input->input == NULL)
      continue;
    first = first == NULL ? input : first;
    rows += input->rank > 0 ? input->dims[0] : 1;
    elements += (int64_t)input->element_count;
  }
  assert(first != NULL);
  if (feed->ragged) {
    *shape = (backend_shape){.rank = 1, .dims = {elements}};
    return NULL;
  }
  BACKEND_RETURN_IF_ERROR(backend_shape_set(shape, first->dims, first->rank, feed->name));
  if (feed->scalar)
    shape->rank = 0;
  else if (self->run.instance->model->max_batch_size > 0 && shape->rank > 0)
    shape->dims[0] = rows;
  return NULL;
}

// Strings are gathered on the host.
static TRITONSERVER_Error *gather(batch_run *self, size_t index, framework_input *input)
{
  framework_instance *instance = self->run.instance;
  const size_t alignment = framework_definition.alignment > 0 ? framework_definition.alignment : 1;
  input->on_device = instance->device != NULL && input->datatype != TRITONSERVER_TYPE_BYTES;
  if (input->on_device)
    return backend_transfer_gather(instance->transfer, self->inputs, alignment, &input->data,
                                   &input->byte_size);
  return backend_gather(&self->batch, self->inputs, alignment, &instance->gathered[index],
                        &input->data, &input->byte_size);
}

static TRITONSERVER_Error *add_feed(batch_run *self, size_t index)
{
  framework_instance *instance = self->run.instance;
  const framework_feed *feed = &instance->model->feeds[index];
  backend_shape shape;
  if (!framework_find_inputs(self, feed))
    return NULL;
  BACKEND_RETURN_IF_ERROR(tensor_shape(self, feed, &shape));
  framework_input input = {.name = feed->name,
                           .tensor = feed->tensor,
                           .datatype = feed->datatype,
                           .dims = shape.dims,
                           .rank = shape.rank};
  BACKEND_RETURN_IF_ERROR(gather(self, index, &input));
  return framework_definition.add_input(&self->run, &input);
}

// The tensor is small, so the driver copies it at once. An error fails all requests.
static TRITONSERVER_Error *bring_to_device(const framework_instance *instance, const char *name,
                                           framework_input *input)
{
  const gpu_place host = {.kind = GPU_MEMORY_HOST}, device = backend_device_place(instance->device);
  void *memory = NULL;
  bool done = false;
  BACKEND_RETURN_IF_ERROR(backend_transfer_take(instance->transfer, input->byte_size, &memory));
  backend_transfer_expect(instance->transfer);
  BACKEND_RETURN_IF_ERROR(backend_error_of(gpu_copy(
      memory, device, input->data, host, input->byte_size, instance->device->stream, name, &done)));
  input->data = memory;
  input->on_device = true;
  return NULL;
}

// Makes one tensor for all target names of the batch feed.
static TRITONSERVER_Error *add_batch_feed(batch_run *self, size_t index)
{
  framework_instance *instance = self->run.instance;
  const framework_model *model = instance->model;
  const framework_batch_feed *feed = &model->batch_feeds[index];
  backend_buffer *buffer = &instance->gathered[model->feed_count + index];
  backend_shape shape;
  size_t size = 0;
  framework_find_inputs(self, &model->feeds[feed->source]);
  BACKEND_RETURN_IF_ERROR(backend_batch_input_make(&feed->input, self->inputs, self->batch.count,
                                                   buffer, &shape, &size));
  framework_input input = {.datatype = feed->input.datatype,
                           .dims = shape.dims,
                           .rank = shape.rank,
                           .data = buffer->data,
                           .byte_size = size};
  if (instance->device != NULL && size > 0)
    BACKEND_RETURN_IF_ERROR(bring_to_device(instance, feed->input.source, &input));
  for (size_t i = 0; i < feed->input.target_count; i++) {
    input.name = backend_batch_target(&feed->input, i);
    input.tensor = framework_tensor_find(&model->signature.inputs, input.name);
    BACKEND_RETURN_IF_ERROR(framework_definition.add_input(&self->run, &input));
  }
  return NULL;
}

TRITONSERVER_Error *framework_add_inputs(batch_run *self)
{
  const framework_model *model = self->run.instance->model;
  for (size_t k = 0; k < model->feed_count; k++)
    BACKEND_RETURN_IF_ERROR(add_feed(self, k));
  for (size_t k = 0; k < model->batch_feed_count; k++)
    BACKEND_RETURN_IF_ERROR(add_batch_feed(self, k));
  return NULL;
}
