// SPDX-License-Identifier: Apache-2.0
// Executions on a GPU.
#include "identity_device.h"

#include "backend_error.h"
#include "backend_transfer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// One execution. Its memory is kept for the next.
typedef struct flight {
  backend_batch batch;
  backend_transfer *transfer;
  uint64_t rows;
  uint32_t capacity;     // number of requests that fit
  int64_t *batch_sizes;  // per request
  backend_input *inputs; // per request, for the current pair
  bool *wanted;          // [request][pair]; then the same for next states
} flight;

struct identity_device {
  backend_device *device;
  const identity_model *model;
  const char **names; // of the outputs
  flight flights[IDENTITY_MOST_EXECUTIONS];
  size_t first, count; // open executions
};

TRITONSERVER_Error *identity_device_new(const identity_model *model,
                                        TRITONBACKEND_ModelInstance *instance,
                                        struct identity_device **device)
{
  backend_device *found;
  *device = NULL;
  BACKEND_RETURN_IF_ERROR(backend_device_new(instance, &found));
  if (found == NULL)
    return NULL;
  struct identity_device *self = calloc(1, sizeof(*self));
  if (self == NULL) {
    backend_device_free(found);
    return backend_error_no_memory("a model instance");
  }
  self->device = found;
  self->model = model;
  self->names = calloc(model->pair_count + 1, sizeof(*self->names));
  TRITONSERVER_Error *error =
      self->names == NULL ? backend_error_no_memory("a model instance") : NULL;
  for (size_t i = 0; error == NULL && i < IDENTITY_MOST_EXECUTIONS; i++)
    error = backend_transfer_new(found, &self->flights[i].transfer);
  if (error != NULL) {
    identity_device_free(self);
    return error;
  }
  for (size_t k = 0; k < model->pair_count; k++)
    self->names[k] = model->pairs[k].output_name;
  *device = self;
  return NULL;
}

static void free_room(flight *f)
{
  free(f->batch_sizes);
  free(f->inputs);
  free(f->wanted);
  f->capacity = 0;
  f->batch_sizes = NULL;
  f->inputs = NULL;
  f->wanted = NULL;
}

void identity_device_free(struct identity_device *self)
{
  if (self == NULL)
    return;
  assert(self->count == 0);
  for (size_t i = 0; i < IDENTITY_MOST_EXECUTIONS; i++) {
    backend_transfer_free(self->flights[i].transfer);
    free_room(&self->flights[i]);
  }
  backend_device_free(self->device);
  free(self->names);
  free(self);
}

static TRITONSERVER_Error *make_room(flight *f, uint32_t count, size_t pair_count)
{
  if (count <= f->capacity)
    return NULL;
  free_room(f);
  f->batch_sizes = calloc(count, sizeof(*f->batch_sizes));
  f->inputs = calloc(count, sizeof(*f->inputs));
  f->wanted = calloc(count, 2 * pair_count + 1);
  if (f->batch_sizes == NULL || f->inputs == NULL || f->wanted == NULL) {
    free_room(f);
    return backend_error_no_memory("a batch");
  }
  f->capacity = count;
  return NULL;
}

static bool *wanted_by(const flight *f, size_t pair_count, uint32_t i)
{
  return f->wanted + i * 2 * pair_count;
}

// Reads the batch sizes and wanted outputs of all requests. A failed request wants nothing.
static void look(const struct identity_device *self, flight *f)
{
  size_t pair_count = self->model->pair_count;
  for (uint32_t i = 0; i < f->batch.count; i++) {
    TRITONBACKEND_Request *request = f->batch.requests[i];
    bool *wanted = wanted_by(f, pair_count, i);
    TRITONSERVER_Error *error = identity_look(self->model, request, &f->batch_sizes[i]);
    if (error == NULL)
      error = identity_set_parameters(f->batch.responses[i]);
    if (error == NULL)
      error = backend_outputs_wanted(request, self->names, pair_count, wanted);
    for (size_t k = 0; k < pair_count; k++)
      wanted[pair_count + k] = self->model->pairs[k].is_state;
    if (error != NULL)
      memset(wanted, 0, 2 * pair_count);
    backend_transfer_fail(f->transfer, i, error);
    f->rows += f->batch_sizes[i] > 0 ? (uint64_t)f->batch_sizes[i] : 1;
  }
}

static TRITONSERVER_Error *give_zeros(flight *f, uint32_t i, const identity_pair *pair)
{
  identity_zeros zeros;
  const void *data;
  BACKEND_RETURN_IF_ERROR(identity_zeros_of(pair, f->batch_sizes[i], &zeros));
  BACKEND_RETURN_IF_ERROR(backend_transfer_zeros(f->transfer, zeros.byte_size, &data));
  backend_transfer_output(f->transfer, i, pair->output_name, pair->datatype, zeros.dims, zeros.rank,
                          data, zeros.byte_size);
  return NULL;
}

static TRITONSERVER_Error *find_input(const identity_instance *self, flight *f, uint32_t i,
                                      const identity_pair *pair, bool is_output)
{
  TRITONBACKEND_Request *request = f->batch.requests[i];
  backend_input input;
  bool absent = false;
  if (pair->optional)
    BACKEND_RETURN_IF_ERROR(identity_is_absent(pair, request, &absent));
  if (absent)
    return is_output ? give_zeros(f, i, pair) : NULL;
  BACKEND_RETURN_IF_ERROR(backend_input_find(request, pair->input_name, self->host_policy, &input));
  BACKEND_RETURN_IF_ERROR(identity_count_bytes(self->model, &input));
  f->inputs[i] = input;
  return NULL;
}

static void copy_pair(const identity_instance *self, flight *f, size_t k)
{
  const identity_model *model = self->model;
  const identity_pair *pair = &model->pairs[k];
  const void *gathered;
  size_t byte_size, at = 0;
  for (uint32_t i = 0; i < f->batch.count; i++) {
    f->inputs[i] = (backend_input){0};
    const bool *wanted = wanted_by(f, model->pair_count, i) + k;
    if (wanted[0] || wanted[model->pair_count])
      backend_transfer_fail(f->transfer, i, find_input(self, f, i, pair, wanted[0]));
  }
  TRITONSERVER_Error *error =
      backend_transfer_gather(f->transfer, f->inputs, 1, &gathered, &byte_size);
  if (error != NULL) {
    backend_transfer_fail_all(f->transfer, error);
    return;
  }
  for (uint32_t i = 0; i < f->batch.count; i++) {
    const backend_input *input = &f->inputs[i];
    if (input->input == NULL)
      continue;
    const bool *wanted = wanted_by(f, model->pair_count, i) + k;
    if (wanted[0])
      backend_transfer_output(f->transfer, i, pair->output_name, input->datatype, input->dims,
                              input->rank, (const char *)gathered + at, input->byte_size);
    if (wanted[model->pair_count])
      backend_transfer_state(f->transfer, i, pair->output_name, input->datatype, input->dims,
                             input->rank, (const char *)gathered + at, input->byte_size);
    at += input->byte_size;
  }
}

TRITONSERVER_Error *identity_device_begin(const identity_instance *self,
                                          TRITONBACKEND_ModelInstance *instance,
                                          TRITONBACKEND_Request **requests, uint32_t count)
{
  struct identity_device *device = self->device;
  assert(device->count < IDENTITY_MOST_EXECUTIONS);
  flight *f = &device->flights[(device->first + device->count) % IDENTITY_MOST_EXECUTIONS];
  BACKEND_RETURN_IF_ERROR(make_room(f, count, self->model->pair_count));
  BACKEND_RETURN_IF_ERROR(backend_batch_begin(&f->batch, instance, requests, count));
  backend_transfer_begin(f->transfer, &f->batch);
  f->rows = 0;
  if (self->model->execute_delay_ms > 0)
    identity_delay(self);
  look(device, f);
  for (size_t k = 0; k < self->model->pair_count; k++)
    copy_pair(self, f, k);
  backend_transfer_close(f->transfer);
  device->count++;
  return NULL;
}

bool identity_device_end(struct identity_device *self, int64_t timeout_us)
{
  flight *f = &self->flights[self->first];
  assert(self->count > 0);
  if (!backend_transfer_end(f->transfer, timeout_us))
    return false;
  self->first = (self->first + 1) % IDENTITY_MOST_EXECUTIONS;
  self->count--;
  f->batch.compute_end_ns = clock_monotonic_ns();
  backend_batch_finish(&f->batch, f->rows);
  return true;
}

bool identity_device_fault(const struct identity_device *self, char *text, size_t size)
{
  return self != NULL && backend_device_fault(self->device, text, size);
}
