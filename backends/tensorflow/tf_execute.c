// SPDX-License-Identifier: Apache-2.0
// One run of a session; see tf_model.h and framework.h.
#include "tf_model.h"

#include "backend_error.h"
#include "base/checked.h"
#include "tf_dtype.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define TENSOR_ALIGNMENT 64

// The run's inputs and outputs, in its arena.
typedef struct tf_run {
  tf_api_output *inputs;
  tf_api_tensor **fed;
  size_t input_count;
  tf_api_output *outputs;
  tf_api_tensor **fetched; // as run->fetches
} tf_run;

static const tf_api *api_of(const framework_run *run)
{
  return tf_api_of(run->instance->model);
}

static const tf_instance *instance_of(const framework_run *run)
{
  return run->instance->state;
}

TRITONSERVER_Error *tf_run_begin(framework_run *run)
{
  arena *m = &run->memory;
  const size_t inputs = run->input_most + 1, outputs = run->fetch_count + 1;
  tf_run *self = arena_allocate_array(m, 1, sizeof(*self));
  if (self == NULL)
    return backend_error_no_memory("a batch");
  *self = (tf_run){.inputs = arena_allocate_array(m, inputs, sizeof(*self->inputs)),
                   .fed = arena_allocate_array(m, inputs, sizeof(*self->fed)),
                   .outputs = arena_allocate_array(m, outputs, sizeof(*self->outputs)),
                   .fetched = arena_allocate_array(m, outputs, sizeof(*self->fetched))};
  if (self->inputs == NULL || self->fed == NULL || self->outputs == NULL || self->fetched == NULL)
    return backend_error_no_memory("a batch");
  for (size_t i = 0; i < run->fetch_count; i++) {
    self->outputs[i] = instance_of(run)->session->outputs[run->fetches[i]->tensor->position];
    self->fetched[i] = NULL;
  }
  run->state = self;
  return NULL;
}

// ---- inputs ----

// The request owns the memory, so nothing is freed. Any thread of TensorFlow's.
static void release_nothing(void *data, size_t length, void *context)
{
  (void)data;
  (void)length;
  (void)context;
}

// Frees a tensor of strings made here. Any thread of TensorFlow's.
static void release_strings(void *data, size_t length, void *context)
{
  const tf_api *api = context;
  tf_api_string *strings = data;
  for (size_t i = 0; i < length / sizeof(*strings); i++)
    api->StringDealloc(&strings[i]);
  free(data);
}

// TensorFlow copies the strings.
static TRITONSERVER_Error *make_strings(const tf_api *api, const framework_input *input,
                                        tf_api_tensor **tensor)
{
  const char *at = input->data, *text = NULL;
  size_t left = input->byte_size, count = 0, length = 0;
  BACKEND_RETURN_IF_ERROR(framework_element_count(input->name, input->dims, input->rank, &count));
  if (count > left / 4) // each string has a length of 4 bytes
    return backend_error_invalid("input '%s': element %zu of %zu is cut off", input->name, left / 4,
                                 count);
  void *memory = NULL;
  size_t size;
  if (!checked_array_size(1, count, sizeof(tf_api_string), &size) ||
      posix_memalign(&memory, TENSOR_ALIGNMENT, size) != 0)
    return backend_error_no_memory("an input");
  tf_api_string *strings = memory;
  for (size_t i = 0; i < count; i++)
    api->StringInit(&strings[i]);
  *tensor = api->NewTensor(TF_DTYPE_STRING, input->dims, (int)input->rank, strings,
                           count * sizeof(*strings), release_strings, (void *)api);
  if (*tensor == NULL)
    return backend_error_internal("input '%s' is no tensor to TensorFlow", input->name);
  for (size_t i = 0; i < count; i++) {
    if (!framework_next_string(&at, &left, &text, &length))
      return backend_error_invalid("input '%s': element %zu of %zu is cut off", input->name, i,
                                   count);
    api->StringCopy(&strings[i], text, length);
  }
  return NULL;
}

// A model may keep its inputs also if there are additional operators, whose behaviour is unknown.
static bool keeps_inputs(const framework_model *model)
{
  const tf_runtime *runtime = model->library->state;
  return tf_model_of(model)->file.keeps_inputs || atomic_load(&runtime->has_more_operators);
}

// A model that may keep its inputs gets a copy; others read the request's memory.
static TRITONSERVER_Error *make_numbers(const framework_run *run, const framework_input *input,
                                        tf_api_tensor **tensor)
{
  const tf_api *api = api_of(run);
  const int dtype = tf_dtype(input->datatype);
  if (!keeps_inputs(run->instance->model)) {
    *tensor = api->NewTensor(dtype, input->dims, (int)input->rank, (void *)input->data,
                             input->byte_size, release_nothing, NULL);
  } else {
    *tensor = api->AllocateTensor(dtype, input->dims, (int)input->rank, input->byte_size);
    if (*tensor != NULL && input->byte_size > 0)
      memcpy(api->TensorData(*tensor), input->data, input->byte_size);
  }
  return *tensor != NULL
             ? NULL
             : backend_error_internal("input '%s' is no tensor to TensorFlow", input->name);
}

TRITONSERVER_Error *tf_run_add_input(framework_run *run, const framework_input *input)
{
  tf_run *self = run->state;
  assert(self->input_count < run->input_most);
  if (input->tensor == NULL)
    return backend_error_internal("the model has no input '%s'", input->name);
  tf_api_tensor **tensor = &self->fed[self->input_count];
  *tensor = NULL;
  self->inputs[self->input_count++] = instance_of(run)->session->inputs[input->tensor->position];
  return input->datatype == TRITONSERVER_TYPE_BYTES ? make_strings(api_of(run), input, tensor)
                                                    : make_numbers(run, input, tensor);
}

// ---- the run ----

TRITONSERVER_Error *tf_run_compute(framework_run *run)
{
  const tf_api *api = api_of(run);
  const tf_instance *instance = instance_of(run);
  const tf_run *self = run->state;
  api->SessionRun(instance->session->session, NULL, self->inputs, self->fed, (int)self->input_count,
                  self->outputs, self->fetched, (int)run->fetch_count, NULL, 0, NULL,
                  instance->status);
  return tf_error(api, instance->status, NULL);
}

void tf_run_end(framework_run *run)
{
  const tf_api *api = api_of(run);
  const tf_run *self = run->state;
  if (self == NULL)
    return;
  for (size_t i = 0; i < self->input_count; i++)
    if (self->fed[i] != NULL)
      api->DeleteTensor(self->fed[i]);
  for (size_t i = 0; i < run->fetch_count; i++)
    if (self->fetched[i] != NULL)
      api->DeleteTensor(self->fetched[i]);
}

// ---- outputs ----

static TRITONSERVER_Error *read_strings(framework_run *run, const tf_api_tensor *tensor,
                                        framework_output *output)
{
  const tf_api *api = api_of(run);
  const tf_api_string *strings = api->TensorData(tensor);
  size_t count = 0, size = 0;
  if (!backend_element_count(output->shape.dims, output->shape.rank, &count))
    return backend_error_internal("an output has an impossible shape");
  for (size_t i = 0; i < count; i++)
    size += api->StringGetSize(&strings[i]);
  char *bytes = arena_allocate_array(&run->memory, size + 1, 1);
  size_t *offsets = arena_allocate_array(&run->memory, count + 1, sizeof(*offsets));
  if (bytes == NULL || offsets == NULL)
    return backend_error_no_memory("an output");
  offsets[0] = 0;
  for (size_t i = 0; i < count; i++) {
    const size_t length = api->StringGetSize(&strings[i]);
    if (length > 0)
      memcpy(bytes + offsets[i], api->StringGetDataPointer(&strings[i]), length);
    offsets[i + 1] = offsets[i] + length;
  }
  output->data = bytes;
  output->offsets = offsets;
  return NULL;
}

TRITONSERVER_Error *tf_run_read_output(framework_run *run, size_t index, framework_output *output)
{
  const tf_api *api = api_of(run);
  const tf_api_tensor *tensor = ((const tf_run *)run->state)->fetched[index];
  const int rank = api->NumDims(tensor);
  if (rank < 0 || rank > BACKEND_MAX_RANK)
    return backend_error(TRITONSERVER_ERROR_UNSUPPORTED, "output '%s' has %d dimensions",
                         run->fetches[index]->name, rank);
  output->shape.rank = (size_t)rank;
  for (int i = 0; i < rank; i++)
    output->shape.dims[i] = api->Dim(tensor, i);
  output->datatype = tf_datatype(api->TensorType(tensor));
  if (output->datatype == TRITONSERVER_TYPE_INVALID)
    return backend_error(TRITONSERVER_ERROR_UNSUPPORTED, "output '%s' has the type %s",
                         run->fetches[index]->name, tf_dtype_name(api->TensorType(tensor)));
  if (output->datatype == TRITONSERVER_TYPE_BYTES)
    return read_strings(run, tensor, output);
  output->data = api->TensorData(tensor);
  return NULL;
}
