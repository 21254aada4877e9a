// SPDX-License-Identifier: Apache-2.0
// One run of an instance's request; see ov_model.h and framework.h. On the instance's thread.
#include "ov_model.h"

#include "backend_error.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef struct ov_instance {
  ov_infer_request *request;
  bool *given;     // inputs that this run has
  ov_tensor **own; // each output's tensor from OpenVINO
  size_t run;      // number of the run
  size_t *lent;    // the run in which each output got a response's memory instead; 0: never
} ov_instance;

#define runtime_of(run)  ov_runtime_of((run)->instance->model)
#define instance_of(run) ((ov_instance *)(run)->instance->state)

// ---- instances ----

static TRITONSERVER_Error *fill_instance(const framework_model *model, ov_instance *self)
{
  const ov_runtime *runtime = ov_runtime_of(model);
  const framework_signature *signature = &model->signature;
  OV_TRY(runtime, compiled_model_create_infer_request(ov_state_of(model)->compiled, &self->request),
         "creating infer request object");
  self->given = calloc(signature->inputs.count + 1, sizeof(*self->given));
  self->own = calloc(signature->outputs.count + 1, sizeof(*self->own));
  self->lent = calloc(signature->outputs.count + 1, sizeof(*self->lent));
  if (self->given == NULL || self->own == NULL || self->lent == NULL)
    return backend_error_no_memory("a model instance");
  for (size_t i = 0; runtime->computes_in_place && i < signature->outputs.count; i++)
    OV_TRY(runtime, infer_request_get_output_tensor_by_index(self->request, i, &self->own[i]),
           "getting output tensors");
  return NULL;
}

TRITONSERVER_Error *ov_instance_new(framework_instance *instance)
{
  if (instance->kind != TRITONSERVER_INSTANCEGROUPKIND_CPU)
    return backend_error_invalid(
        "unable to load model '%s', Triton OpenVINO backend supports only Kind CPU and AUTO",
        instance->model->name);
  instance->state = calloc(1, sizeof(ov_instance));
  return instance->state == NULL ? backend_error_no_memory("a model instance")
                                 : fill_instance(instance->model, instance->state);
}

void ov_instance_free(framework_instance *instance)
{
  ov_instance *self = instance->state;
  const ov_api *api = &ov_runtime_of(instance->model)->api;
  if (self == NULL)
    return;
  for (size_t i = 0; self->own != NULL && i < instance->model->signature.outputs.count; i++)
    if (self->own[i] != NULL)
      api->tensor_free(self->own[i]);
  if (self->request != NULL)
    api->infer_request_free(self->request);
  free(self->given);
  free(self->own);
  free(self->lent);
  free(self);
}

// ---- inputs ----

// Rows of zeros to add to the requests' rows for a fixed batch size.
static int64_t rows_missing(const framework_run *run)
{
  const int64_t fixed = ov_state_of(run->instance->model)->fixed_batch;
  return fixed == 0 ? 0 : fixed - run->rows;
}

TRITONSERVER_Error *ov_run_begin(framework_run *run)
{
  const framework_model *model = run->instance->model;
  memset(instance_of(run)->given, 0, model->signature.inputs.count);
  if (rows_missing(run) == 0 || ov_state_of(model)->pads)
    return NULL;
  return backend_error_internal(
      "expected requests with batch size '%lld', got '%lld'... this error can be avoided by "
      "setting 'ENABLE_BATCH_PADDING' parameter in model configuration to 'YES' at a performance "
      "cost.",
      (long long)ov_state_of(model)->fixed_batch, (long long)run->rows);
}

// Uses the input's memory, or, where rows are missing, a copy followed by zeros.
static TRITONSERVER_Error *make_tensor(const framework_run *run, const framework_input *input,
                                       ov_tensor **tensor)
{
  const ov_runtime *runtime = runtime_of(run);
  const int element = ov_element_of(runtime, input->datatype);
  ov_shape shape = {.rank = (int64_t)input->rank, .dims = (int64_t *)input->dims};
  const int64_t missing = input->rank > 0 ? rows_missing(run) : 0;
  if (missing == 0) {
    OV_TRY(runtime, tensor_create_from_host_ptr(element, shape, (void *)input->data, tensor),
           "setting tensor data");
    return NULL;
  }
  int64_t dims[BACKEND_MAX_RANK];
  void *data = NULL;
  size_t size = 0;
  memcpy(dims, input->dims, input->rank * sizeof(*dims));
  dims[0] += missing;
  shape.dims = dims;
  OV_TRY(runtime, tensor_create(element, shape, tensor), "setting tensor data");
  OV_TRY(runtime, tensor_data(*tensor, &data), "setting tensor data");
  OV_TRY(runtime, tensor_get_byte_size(*tensor, &size), "setting tensor data");
  assert(size >= input->byte_size); // the same type with more rows
  memcpy(data, input->data, input->byte_size);
  memset((char *)data + input->byte_size, 0, size - input->byte_size);
  return NULL;
}

TRITONSERVER_Error *ov_run_add_input(framework_run *run, const framework_input *input)
{
  const ov_runtime *runtime = runtime_of(run);
  ov_instance *instance = instance_of(run);
  ov_tensor *tensor = NULL;
  if (input->tensor == NULL)
    return backend_error_invalid("the model has no input '%s'", input->name);
  TRITONSERVER_Error *error = make_tensor(run, input, &tensor);
  if (error == NULL)
    error = ov_error(runtime,
                     runtime->api.infer_request_set_input_tensor_by_index(
                         instance->request, input->tensor->position, tensor),
                     "setting tensor data");
  if (tensor != NULL)
    runtime->api.tensor_free(tensor); // the request holds a reference
  instance->given[input->tensor->position] = true;
  return error;
}

// A missing input is an error: the request has the previous run's tensor, whose memory is gone.
static TRITONSERVER_Error *check_inputs(const framework_run *run)
{
  const framework_tensors *inputs = &run->instance->model->signature.inputs;
  for (size_t i = 0; i < inputs->count; i++)
    if (!instance_of(run)->given[i])
      return backend_error_invalid("input '%s' is missing: a model of OpenVINO needs all of its "
                                   "inputs",
                                   inputs->list[i].name);
  return NULL;
}

// ---- the run ----

static TRITONSERVER_Error *lend(const framework_run *run, size_t fetch)
{
  const ov_runtime *runtime = runtime_of(run);
  const framework_room *room = &run->rooms[fetch];
  const size_t position = run->fetches[fetch]->tensor->position;
  const ov_shape shape = {.rank = (int64_t)room->rank, .dims = (int64_t *)room->dims};
  ov_tensor *tensor = NULL;
  OV_TRY(runtime,
         tensor_create_from_host_ptr(ov_element_of(runtime, run->fetches[fetch]->datatype), shape,
                                     room->output.data, &tensor),
         "setting tensor data");
  TRITONSERVER_Error *error = ov_error(runtime,
                                       runtime->api.infer_request_set_output_tensor_by_index(
                                           instance_of(run)->request, position, tensor),
                                       "setting tensor data");
  runtime->api.tensor_free(tensor); // the request holds a reference
  instance_of(run)->lent[position] = instance_of(run)->run;
  return error;
}

// Restores OpenVINO's own tensor for an output that the previous run wrote to a response's memory.
static TRITONSERVER_Error *take_back(const framework_run *run, size_t position)
{
  const ov_runtime *runtime = runtime_of(run);
  ov_instance *instance = instance_of(run);
  if (instance->lent[position] == 0 || instance->lent[position] == instance->run)
    return NULL;
  OV_TRY(runtime,
         infer_request_set_output_tensor_by_index(instance->request, position,
                                                  instance->own[position]),
         "setting tensor data");
  instance->lent[position] = 0;
  return NULL;
}

static bool has_room(const framework_run *run, size_t fetch)
{
  return run->rooms[fetch].byte_size > 0 && runtime_of(run)->computes_in_place &&
         rows_missing(run) == 0;
}

static TRITONSERVER_Error *place_outputs(const framework_run *run)
{
  instance_of(run)->run++;
  for (size_t i = 0; i < run->fetch_count; i++)
    if (has_room(run, i))
      BACKEND_RETURN_IF_ERROR(lend(run, i));
  for (size_t i = 0; i < run->instance->model->signature.outputs.count; i++)
    BACKEND_RETURN_IF_ERROR(take_back(run, i));
  return NULL;
}

// OpenVINO's call for a whole run reports success for some failed runs; these two calls do not.
TRITONSERVER_Error *ov_run_compute(framework_run *run)
{
  const ov_runtime *runtime = runtime_of(run);
  ov_infer_request *request = instance_of(run)->request;
  BACKEND_RETURN_IF_ERROR(check_inputs(run));
  BACKEND_RETURN_IF_ERROR(place_outputs(run));
  OV_TRY(runtime, infer_request_start_async(request), "running async inference");
  OV_TRY(runtime, infer_request_wait(request), "running inference - wait");
  return NULL;
}

// ---- outputs ----

// The C API has no shape for a scalar: it fails without a reason.
static bool is_scalar(const ov_runtime *runtime, const ov_tensor *tensor,
                      TRITONSERVER_DataType datatype)
{
  size_t size = 0;
  return runtime->api.tensor_get_byte_size(tensor, &size) == 0 &&
         size == TRITONSERVER_DataTypeByteSize(datatype);
}

static TRITONSERVER_Error *read_shape(const ov_runtime *runtime, const ov_tensor *tensor,
                                      const char *name, framework_output *output)
{
  ov_shape shape = {0};
  const int status = runtime->api.tensor_get_shape(tensor, &shape);
  output->shape.rank = 0;
  if (status != 0 && is_scalar(runtime, tensor, output->datatype))
    return NULL;
  BACKEND_RETURN_IF_ERROR(ov_error(runtime, status, "reading an output"));
  TRITONSERVER_Error *error =
      backend_shape_set(&output->shape, shape.dims, (size_t)shape.rank, name);
  runtime->api.shape_free(&shape);
  return error;
}

static TRITONSERVER_Error *read_tensor(const framework_run *run, const ov_tensor *tensor,
                                       const char *name, framework_output *output)
{
  const ov_runtime *runtime = runtime_of(run);
  void *data = NULL;
  BACKEND_RETURN_IF_ERROR(read_shape(runtime, tensor, name, output));
  OV_TRY(runtime, tensor_data(tensor, &data), "reading an output");
  output->data = data;
  if (rows_missing(run) > 0 && output->shape.rank > 0)
    output->shape.dims[0] -= rows_missing(run);
  return NULL;
}

// The data belongs to the request or the room, not to the tensor.
TRITONSERVER_Error *ov_run_read_output(framework_run *run, size_t index, framework_output *output)
{
  const ov_runtime *runtime = runtime_of(run);
  const framework_fetch *fetch = run->fetches[index];
  ov_tensor *tensor = NULL;
  OV_TRY(runtime,
         infer_request_get_output_tensor_by_index(instance_of(run)->request,
                                                  fetch->tensor->position, &tensor),
         "reading an output");
  output->datatype = fetch->tensor->datatype;
  TRITONSERVER_Error *error = read_tensor(run, tensor, fetch->name, output);
  runtime->api.tensor_free(tensor);
  return error;
}
