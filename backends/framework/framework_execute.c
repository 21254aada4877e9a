// SPDX-License-Identifier: Apache-2.0
// Turns requests into one run of the model and its outputs into responses. Instance threads.
#include "framework_parts.h"

#include "backend_artifact.h"
#include "backend_error.h"

#include <stdlib.h>

#define KEPT_BYTES (8 * 1024 * 1024) // kept of a gather buffer between batches

// ---- instances ----

static TRITONSERVER_Error *fill_instance(framework_instance *self)
{
  const framework_model *model = self->model;
  self->gathered = calloc(model->feed_count + model->batch_feed_count + 1, sizeof(*self->gathered));
  if (self->gathered == NULL)
    return backend_error_no_memory("a model instance");
  BACKEND_RETURN_IF_ERROR(backend_host_policy(self->instance, &self->host_policy));
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceKind(self->instance, &self->kind));
  BACKEND_RETURN_IF_ERROR(backend_artifact_log(self->instance, model->config));
  if (framework_definition.check_gpu != NULL)
    BACKEND_RETURN_IF_ERROR(backend_device_new(self->instance, &self->device));
  if (self->device != NULL)
    BACKEND_RETURN_IF_ERROR(backend_transfer_new(self->device, &self->transfer));
  return framework_definition.instance_new == NULL ? NULL : framework_definition.instance_new(self);
}

TRITONSERVER_Error *framework_instance_new(framework_model *model,
                                           TRITONBACKEND_ModelInstance *instance,
                                           framework_instance **result)
{
  framework_instance *self = calloc(1, sizeof(*self));
  if (self == NULL)
    return backend_error_no_memory("a model instance");
  self->model = model;
  self->instance = instance;
  TRITONSERVER_Error *error = fill_instance(self);
  if (error != NULL) {
    framework_instance_free(self);
    return error;
  }
  *result = self;
  return NULL;
}

void framework_instance_free(framework_instance *self)
{
  if (self == NULL)
    return;
  if (framework_definition.instance_free != NULL)
    framework_definition.instance_free(self);
  backend_transfer_free(self->transfer);
  backend_device_free(self->device);
  const size_t buffers = self->model->feed_count + self->model->batch_feed_count;
  for (size_t i = 0; self->gathered != NULL && i < buffers; i++)
    backend_buffer_fini(&self->gathered[i]);
  free(self->gathered);
  free(self->host_policy);
  free(self);
}

// ---- the run ----

static TRITONSERVER_Error *allocate(batch_run *self)
{
  const framework_model *model = self->run.instance->model;
  const uint32_t count = self->batch.count;
  arena *m = &self->run.memory;
  self->inputs = arena_allocate_array(m, count, sizeof(*self->inputs));
  self->rows = arena_allocate_array(m, count, sizeof(*self->rows));
  self->wanted = arena_allocate_array(m, count, model->fetch_count); // one byte each
  self->run.request_count = count;
  self->run.input_most = model->feed_count + model->batch_tensor_count;
  return self->inputs != NULL && self->rows != NULL && self->wanted != NULL
             ? NULL
             : backend_error_no_memory("a batch");
}

static void release(batch_run *self, bool begun)
{
  const framework_model *model = self->run.instance->model;
  if (begun && framework_definition.end != NULL)
    framework_definition.end(&self->run);
  framework_drop_rooms(self);
  const size_t buffers = model->feed_count + model->batch_feed_count;
  for (size_t i = 0; i < buffers; i++)
    backend_buffer_trim(&self->run.instance->gathered[i], KEPT_BYTES);
  arena_fini(&self->run.memory);
}

// Sets each request's rows: the first dimension of its first input.
static TRITONSERVER_Error *count_rows(batch_run *self)
{
  bool batching = self->run.instance->model->max_batch_size > 0;
  for (uint32_t i = 0; i < self->batch.count; i++) {
    TRITONBACKEND_Input *input;
    const int64_t *dims;
    uint32_t rank = 0;
    self->rows[i] = 1;
    if (batching) {
      BACKEND_RETURN_IF_ERROR(
          TRITONBACKEND_RequestInputByIndex(self->batch.requests[i], 0, &input));
      BACKEND_RETURN_IF_ERROR(
          TRITONBACKEND_InputProperties(input, NULL, NULL, &dims, &rank, NULL, NULL));
      self->rows[i] = rank > 0 ? dims[0] : 1;
    }
    self->run.rows += self->rows[i];
  }
  return NULL;
}

static TRITONSERVER_Error *compute(batch_run *self)
{
  BACKEND_RETURN_IF_ERROR(framework_add_inputs(self));
  BACKEND_RETURN_IF_ERROR(framework_make_rooms(self));
  self->batch.compute_start_ns = clock_monotonic_ns();
  TRITONSERVER_Error *error = framework_definition.compute(&self->run);
  self->batch.compute_end_ns = clock_monotonic_ns();
  return error != NULL ? error : framework_give_outputs(self);
}

static TRITONSERVER_Error *run_all(batch_run *self, bool *begun)
{
  BACKEND_RETURN_IF_ERROR(allocate(self));
  BACKEND_RETURN_IF_ERROR(count_rows(self));
  BACKEND_RETURN_IF_ERROR(framework_list_outputs(self));
  *begun = true;
  BACKEND_RETURN_IF_ERROR(framework_definition.begin(&self->run));
  return compute(self);
}

// The device's remaining work counts as compute time, as far as this thread can see.
static void end_transfer(batch_run *self, TRITONSERVER_Error *error_owned)
{
  backend_transfer *transfer = self->run.instance->transfer;
  if (error_owned != NULL)
    backend_transfer_fail_all(transfer, error_owned);
  backend_transfer_close(transfer);
  while (!backend_transfer_end(transfer, -1))
    ;
  if (self->batch.compute_start_ns != 0)
    self->batch.compute_end_ns = clock_monotonic_ns();
}

TRITONSERVER_Error *framework_execute(framework_instance *self, TRITONBACKEND_Request **requests,
                                      uint32_t count)
{
  batch_run run = {.run = {.instance = self}};
  bool begun = false;
  BACKEND_RETURN_IF_ERROR(backend_batch_begin(&run.batch, self->instance, requests, count));
  if (self->transfer != NULL)
    backend_transfer_begin(self->transfer, &run.batch);
  TRITONSERVER_Error *error = run_all(&run, &begun);
  const bool executed = error == NULL;
  if (self->transfer != NULL)
    end_transfer(&run, error);
  else if (error != NULL)
    backend_batch_fail_all(&run.batch, error);
  release(&run, begun);
  backend_batch_finish(&run.batch, executed ? (uint64_t)run.run.rows : 0);
  return NULL;
}
