// From requests to one run of the session and back. The inputs of all requests become one tensor
// (backend_gather: no copy for a batch of one), the outputs are cut into rows again.
#include "onnx_execute.h"

#include "backend_batch.h"
#include "backend_config.h"
#include "backend_error.h"
#include "backend_log.h"
#include "base/arena.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define TENSOR_ALIGNMENT 16                // more than any element needs
#define KEPT_BYTES       (8 * 1024 * 1024) // of a gather buffer, from one batch to the next

struct onnx_executor {
  onnx_model *model;
  char *host_policy; // of the instance
  ort_run_options *run_options;
  backend_buffer *gathered; // one for each feed
};

// One batch.
typedef struct onnx_run {
  onnx_executor *executor;
  backend_batch batch;
  arena memory;          // of the lists
  backend_input *inputs; // of one feed, an entry for each request
  int64_t *rows;         // of each request; 1 for models that do not batch
  int64_t total_rows;
  const char **feed_names;
  ort_value **feeds;
  size_t feed_count; // those that are present
  const char **fetch_names;
  ort_value **fetched;
  size_t fetch_count; // those that some request wants
  bool *wanted;       // [request][fetch]
} onnx_run;

TRITONSERVER_Error *onnx_executor_new(onnx_model *model, TRITONBACKEND_ModelInstance *instance,
                                      onnx_executor **result)
{
  onnx_executor *self = calloc(1, sizeof(*self));
  if (self == NULL)
    return backend_error_no_memory("a model instance");
  self->model = model;
  self->gathered = calloc(model->feed_count + 1, sizeof(*self->gathered));
  TRITONSERVER_Error *error = self->gathered == NULL
                                  ? backend_error_no_memory("a model instance")
                                  : backend_host_policy(instance, &self->host_policy);
  if (error == NULL)
    error = onnx_run_options(model, &self->run_options);
  if (error != NULL) {
    onnx_executor_free(self);
    return error;
  }
  *result = self;
  return NULL;
}

void onnx_executor_free(onnx_executor *self)
{
  if (self == NULL)
    return;
  for (size_t i = 0; self->gathered != NULL && i < self->model->feed_count; i++)
    backend_buffer_fini(&self->gathered[i]);
  free(self->gathered);
  free(self->host_policy);
  if (self->run_options != NULL)
    self->model->runtime->api.ReleaseRunOptions(self->run_options);
  free(self);
}

// ---- inputs ----

static bool has_input(TRITONBACKEND_Request *request, const char *name)
{
  TRITONBACKEND_Input *input = NULL;
  TRITONSERVER_Error *error = TRITONBACKEND_RequestInput(request, name, &input);
  TRITONSERVER_ErrorDelete(error);
  return error == NULL;
}

// Looks a feed up in every request; a request that lacks it fails, unless all may do without.
static bool find_inputs(onnx_run *run, const onnx_feed *feed)
{
  bool present = false;
  for (uint32_t i = 0; i < run->batch.count; i++) {
    backend_input *input = &run->inputs[i];
    *input = (backend_input){0};
    if (!backend_batch_alive(&run->batch, i) ||
        (feed->optional && !has_input(run->batch.requests[i], feed->name)))
      continue;
    TRITONSERVER_Error *error =
        backend_input_find(run->batch.requests[i], feed->name, run->executor->host_policy, input);
    if (error != NULL) {
      input->input = NULL;
      backend_batch_fail(&run->batch, i, error);
    } else {
      present = true;
    }
  }
  return present;
}

// The shape of the whole tensor: that of the first request, with the rows of all.
static TRITONSERVER_Error *tensor_shape(const onnx_run *run, const onnx_feed *feed,
                                        backend_shape *shape)
{
  const onnx_model *model = run->executor->model;
  const backend_input *first = NULL;
  int64_t rows = 0;
  for (uint32_t i = 0; i < run->batch.count; i++) {
    const backend_input *input = &run->inputs[i];
    if (input->input == NULL)
      continue;
    first = first == NULL ? input : first;
    rows += input->rank > 0 ? input->dims[0] : 1;
  }
  BACKEND_RETURN_IF_ERROR(backend_shape_set(shape, first->dims, first->rank, feed->name));
  if (feed->scalar)
    shape->rank = 0;
  else if (model->max_batch_size > 0 && shape->rank > 0)
    shape->dims[0] = rows;
  return NULL;
}

// Strings cannot be lent: each is copied into ONNX Runtime's own.
static TRITONSERVER_Error *fill_strings(const ort_runtime *runtime, ort_value *value,
                                        const onnx_feed *feed, const unsigned char *data,
                                        size_t size, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    char *room = NULL;
    uint32_t length = 0;
    if (size >= 4)
      length = data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
    if (size < 4 || length > size - 4)
      return backend_error_invalid("input '%s': element %zu of %zu is cut off", feed->name, i,
                                   count);
    ORT_RETURN_IF_ERROR(runtime,
                        runtime->api.GetResizedStringTensorElementBuffer(value, i, length, &room));
    if (length > 0)
      memcpy(room, data + 4, length);
    data += 4 + (size_t)length;
    size -= 4 + (size_t)length;
  }
  return NULL;
}

static TRITONSERVER_Error *make_strings(const ort_runtime *runtime, const onnx_feed *feed,
                                        const backend_shape *shape, const void *data, size_t size,
                                        ort_value **value)
{
  size_t count = 0;
  if (!backend_element_count(shape->dims, shape->rank, &count))
    return backend_error_invalid("input '%s' has an impossible shape", feed->name);
  ORT_RETURN_IF_ERROR(runtime,
                      runtime->api.CreateTensorAsOrtValue(runtime->allocator, shape->dims,
                                                          shape->rank, ORT_ELEMENT_STRING, value));
  return fill_strings(runtime, *value, feed, data, size, count);
}

static TRITONSERVER_Error *make_feed(onnx_run *run, size_t index)
{
  onnx_executor *self = run->executor;
  const onnx_feed *feed = &self->model->feeds[index];
  const ort_runtime *runtime = self->model->runtime;
  backend_shape shape;
  const void *data = NULL;
  size_t size = 0;
  if (!find_inputs(run, feed))
    return NULL;
  BACKEND_RETURN_IF_ERROR(tensor_shape(run, feed, &shape));
  BACKEND_RETURN_IF_ERROR(backend_gather(&run->batch, run->inputs, TENSOR_ALIGNMENT,
                                         &self->gathered[index], &data, &size));
  assert(run->feed_count <= index);
  ort_value **value = &run->feeds[run->feed_count];
  run->feed_names[run->feed_count++] = feed->name;
  if (feed->datatype == TRITONSERVER_TYPE_BYTES)
    return make_strings(runtime, feed, &shape, data, size, value);
  return ort_error(runtime, runtime->api.CreateTensorWithDataAsOrtValue(
                                runtime->cpu_memory, (void *)data, size, shape.dims, shape.rank,
                                feed->element_type, value));
}

// ---- outputs ----

static void list_fetches(onnx_run *run)
{
  const onnx_model *model = run->executor->model;
  const char **names = run->fetch_names;
  for (size_t k = 0; k < model->fetch_count; k++)
    names[k] = model->fetches[k].name;
  for (uint32_t i = 0; i < run->batch.count; i++) {
    bool *wanted = run->wanted + i * model->fetch_count;
    TRITONSERVER_Error *error =
        backend_outputs_wanted(run->batch.requests[i], names, model->fetch_count, wanted);
    if (error != NULL)
      backend_batch_fail(&run->batch, i, error);
  }
}

static bool is_wanted(const onnx_run *run, size_t fetch)
{
  for (uint32_t i = 0; i < run->batch.count; i++)
    if (run->wanted[i * run->executor->model->fetch_count + fetch])
      return true;
  return false;
}

// One fetched tensor.
typedef struct onnx_output {
  const onnx_fetch *fetch;
  TRITONSERVER_DataType datatype;
  backend_shape shape;
  size_t element_count;
  const char *data; // elements, or the strings' bytes one after the other
  size_t *offsets;  // of strings: element_count + 1
  char *strings;    // owned
} onnx_output;

static void output_fini(onnx_output *output)
{
  free(output->offsets);
  free(output->strings);
}

static TRITONSERVER_Error *read_info(const ort_runtime *runtime, const ort_value *value,
                                     onnx_output *output)
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
    error = backend_error(TRITONSERVER_ERROR_UNSUPPORTED, "output '%s' has %zu dimensions",
                          output->fetch->name, rank);
  if (error == NULL)
    error = ort_error(runtime, api->GetDimensions(info, output->shape.dims, rank));
  api->ReleaseTensorTypeAndShapeInfo(info);
  output->shape.rank = rank;
  output->datatype = onnx_datatype(type);
  if (error == NULL && !backend_element_count(output->shape.dims, rank, &output->element_count))
    error = backend_error_internal("output '%s' has an impossible shape", output->fetch->name);
  return error;
}

static TRITONSERVER_Error *read_strings(const ort_runtime *runtime, const ort_value *value,
                                        onnx_output *output)
{
  size_t size = 0;
  ORT_RETURN_IF_ERROR(runtime, runtime->api.GetStringTensorDataLength(value, &size));
  output->strings = malloc(size + 1);
  output->offsets = calloc(output->element_count + 1, sizeof(*output->offsets));
  if (output->strings == NULL || output->offsets == NULL)
    return backend_error_no_memory("an output");
  ORT_RETURN_IF_ERROR(runtime,
                      runtime->api.GetStringTensorContent(value, output->strings, size,
                                                          output->offsets, output->element_count));
  output->offsets[output->element_count] = size;
  output->data = output->strings;
  return NULL;
}

static TRITONSERVER_Error *read_output(const onnx_run *run, ort_value *value, onnx_output *output)
{
  const ort_runtime *runtime = run->executor->model->runtime;
  BACKEND_RETURN_IF_ERROR(read_info(runtime, value, output));
  if (output->datatype == TRITONSERVER_TYPE_BYTES)
    return read_strings(runtime, value, output);
  void *data = NULL;
  BACKEND_RETURN_IF_ERROR(ort_error(runtime, runtime->api.GetTensorMutableData(value, &data)));
  output->data = data;
  return NULL;
}

// Elements [begin, begin + count) of the output as the bytes that go out.
static size_t elements_size(const onnx_output *output, size_t begin, size_t count)
{
  if (output->offsets == NULL)
    return count * TRITONSERVER_DataTypeByteSize(output->datatype);
  return output->offsets[begin + count] - output->offsets[begin] + 4 * count;
}

static void copy_elements(const onnx_output *output, size_t begin, size_t count, char *to)
{
  if (output->offsets == NULL) {
    size_t size = TRITONSERVER_DataTypeByteSize(output->datatype);
    if (count > 0)
      memcpy(to, output->data + begin * size, count * size);
    return;
  }
  for (size_t i = begin; i < begin + count; i++) {
    size_t length = output->offsets[i + 1] - output->offsets[i];
    for (int k = 0; k < 4; k++)
      *to++ = (char)(length >> 8 * k);
    memcpy(to, output->data + output->offsets[i], length);
    to += length;
  }
}

static TRITONSERVER_Error *give_rows(const onnx_output *output, TRITONBACKEND_Response *response,
                                     const backend_shape *shape, size_t begin, size_t count)
{
  void *data = NULL;
  size_t size = elements_size(output, begin, count);
  BACKEND_RETURN_IF_ERROR(backend_output_new(response, output->fetch->name, output->datatype,
                                             shape->dims, (uint32_t)shape->rank, size, &data));
  copy_elements(output, begin, count, data);
  return NULL;
}

// A scalar has the shape that the configuration gives to its one element, mostly [1].
static backend_shape answered_shape(const onnx_output *output)
{
  const backend_shape *scalar = &output->fetch->scalar_shape;
  size_t count = 0;
  if (output->shape.rank == 0 && backend_element_count(scalar->dims, scalar->rank, &count) &&
      count == 1)
    return *scalar;
  return output->shape;
}

// Triton's text.
static TRITONSERVER_Error *too_few_rows(TRITONBACKEND_Request *request, const onnx_output *output,
                                        int64_t wanted, int64_t given)
{
  const char *id = "";
  TRITONSERVER_ErrorDelete(TRITONBACKEND_RequestId(request, &id));
  return backend_error(TRITONSERVER_ERROR_UNSUPPORTED,
                       "[request id: %s] failed to split the output tensor '%s' in responses: "
                       "expected batch size of at least %lld in model output, got %lld",
                       id[0] != '\0' ? id : "<id_unknown>", output->fetch->name, (long long)wanted,
                       (long long)given);
}

// Gives each request its rows of the output, in order, as Triton does: rows that are left over are
// nobody's, requests for which there are none fail. A model that does not batch has one request.
static void deal(onnx_run *run, size_t fetch_index, const onnx_output *output)
{
  const onnx_model *model = run->executor->model;
  bool batching = model->max_batch_size > 0;
  backend_shape shape = answered_shape(output);
  int64_t rows = batching && shape.rank > 0 ? shape.dims[0] : 1, begin = 0;
  size_t row_elements = rows > 0 ? output->element_count / (size_t)rows : 0;
  for (uint32_t i = 0; i < run->batch.count; i++) {
    int64_t wanted = run->rows[i];
    if (batching && shape.rank > 0)
      shape.dims[0] = wanted;
    if (run->wanted[i * model->fetch_count + fetch_index] && backend_batch_alive(&run->batch, i)) {
      TRITONSERVER_Error *error =
          begin + wanted > rows
              ? too_few_rows(run->batch.requests[i], output, begin + wanted, rows)
              : give_rows(output, run->batch.responses[i], &shape, (size_t)begin * row_elements,
                          (size_t)wanted * row_elements);
      if (error != NULL)
        backend_batch_fail(&run->batch, i, error);
    }
    begin += wanted;
  }
}

static TRITONSERVER_Error *give_outputs(onnx_run *run)
{
  const onnx_model *model = run->executor->model;
  size_t at = 0;
  for (size_t k = 0; k < model->fetch_count; k++) {
    if (!is_wanted(run, k))
      continue;
    onnx_output output = {.fetch = &model->fetches[k]};
    TRITONSERVER_Error *error = read_output(run, run->fetched[at++], &output);
    if (error == NULL)
      deal(run, k, &output);
    output_fini(&output);
    if (error != NULL)
      return error;
  }
  assert(at == run->fetch_count);
  return NULL;
}

// ---- the run ----

static TRITONSERVER_Error *allocate(onnx_run *run)
{
  const onnx_model *model = run->executor->model;
  uint32_t count = run->batch.count;
  arena *m = &run->memory;
  run->inputs = arena_allocate_array(m, count, sizeof(*run->inputs));
  run->rows = arena_allocate_array(m, count, sizeof(*run->rows));
  run->wanted = arena_allocate_array(m, count, model->fetch_count); // a byte each
  run->feed_names = arena_allocate_array(m, model->feed_count, sizeof(*run->feed_names));
  run->feeds = arena_allocate_array(m, model->feed_count, sizeof(*run->feeds));
  run->fetch_names = arena_allocate_array(m, model->fetch_count, sizeof(*run->fetch_names));
  run->fetched = arena_allocate_array(m, model->fetch_count, sizeof(*run->fetched));
  bool complete = run->inputs != NULL && run->rows != NULL && run->wanted != NULL &&
                  run->feed_names != NULL && run->feeds != NULL && run->fetch_names != NULL &&
                  run->fetched != NULL;
  return complete ? NULL : backend_error_no_memory("a batch");
}

static void release(onnx_run *run)
{
  const onnx_model *model = run->executor->model;
  const ort_api *api = &model->runtime->api;
  for (size_t i = 0; i < run->feed_count; i++)
    if (run->feeds[i] != NULL)
      api->ReleaseValue(run->feeds[i]);
  for (size_t i = 0; i < run->fetch_count; i++)
    if (run->fetched[i] != NULL)
      api->ReleaseValue(run->fetched[i]);
  for (size_t i = 0; i < model->feed_count; i++)
    backend_buffer_trim(&run->executor->gathered[i], KEPT_BYTES);
  arena_fini(&run->memory);
}

// How many rows each request has: the first dimension of its first input.
static TRITONSERVER_Error *count_rows(onnx_run *run)
{
  bool batching = run->executor->model->max_batch_size > 0;
  for (uint32_t i = 0; i < run->batch.count; i++) {
    TRITONBACKEND_Input *input;
    const int64_t *dims;
    uint32_t rank = 0;
    run->rows[i] = 1;
    if (batching) {
      BACKEND_RETURN_IF_ERROR(TRITONBACKEND_RequestInputByIndex(run->batch.requests[i], 0, &input));
      BACKEND_RETURN_IF_ERROR(
          TRITONBACKEND_InputProperties(input, NULL, NULL, &dims, &rank, NULL, NULL));
      run->rows[i] = rank > 0 ? dims[0] : 1;
    }
    run->total_rows += run->rows[i];
  }
  return NULL;
}

static TRITONSERVER_Error *compute(onnx_run *run)
{
  const onnx_model *model = run->executor->model;
  size_t kept = 0;
  for (size_t k = 0; k < model->fetch_count; k++)
    if (is_wanted(run, k))
      run->fetch_names[kept++] = model->fetches[k].name;
  run->fetch_count = kept;
  run->batch.compute_start_ns = clock_monotonic_ns();
  TRITONSERVER_Error *error =
      ort_error(model->runtime,
                model->runtime->api.Run(model->session, run->executor->run_options, run->feed_names,
                                        (const ort_value *const *)run->feeds, run->feed_count,
                                        run->fetch_names, run->fetch_count, run->fetched));
  run->batch.compute_end_ns = clock_monotonic_ns();
  return error;
}

static TRITONSERVER_Error *run_all(onnx_run *run)
{
  BACKEND_RETURN_IF_ERROR(allocate(run));
  BACKEND_RETURN_IF_ERROR(count_rows(run));
  list_fetches(run);
  for (size_t k = 0; k < run->executor->model->feed_count; k++)
    BACKEND_RETURN_IF_ERROR(make_feed(run, k));
  BACKEND_RETURN_IF_ERROR(compute(run));
  return give_outputs(run);
}

TRITONSERVER_Error *onnx_execute(onnx_executor *self, TRITONBACKEND_ModelInstance *instance,
                                 TRITONBACKEND_Request **requests, uint32_t count)
{
  onnx_run run = {.executor = self};
  BACKEND_RETURN_IF_ERROR(backend_batch_begin(&run.batch, instance, requests, count));
  TRITONSERVER_Error *error = run_all(&run);
  bool executed = error == NULL;
  if (error != NULL)
    backend_batch_fail_all(&run.batch, error);
  release(&run);
  backend_batch_finish(&run.batch, executed ? (uint64_t)run.total_rows : 0);
  return NULL;
}
