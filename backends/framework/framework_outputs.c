// SPDX-License-Identifier: Apache-2.0
// The outputs of a run: which are wanted, and which rows each response gets. Used on the instance's
// thread by framework_execute.c.
#include "framework_parts.h"

#include "backend_error.h"

#include <assert.h>
#include <string.h>

// ---- which are wanted ----

static bool is_wanted(const batch_run *self, size_t fetch)
{
  const framework_model *model = self->run.instance->model;
  if (model->fetches[fetch].is_state)
    return true;
  for (uint32_t i = 0; i < self->batch.count; i++)
    if (self->wanted[i * model->fetch_count + fetch])
      return true;
  return false;
}

static bool request_wants(const batch_run *self, uint32_t request, const framework_fetch *fetch)
{
  const framework_model *model = self->run.instance->model;
  return self->wanted[request * model->fetch_count + (size_t)(fetch - model->fetches)];
}

TRITONSERVER_Error *framework_list_outputs(batch_run *self)
{
  const framework_model *model = self->run.instance->model;
  framework_run *run = &self->run;
  const char **names = arena_allocate_array(&run->memory, model->fetch_count + 1, sizeof(*names));
  run->fetches = arena_allocate_array(&run->memory, model->fetch_count + 1, sizeof(*run->fetches));
  if (names == NULL || run->fetches == NULL)
    return backend_error_no_memory("a batch");
  for (size_t k = 0; k < model->fetch_count; k++)
    names[k] = model->fetches[k].name;
  for (uint32_t i = 0; i < self->batch.count; i++) {
    bool *wanted = self->wanted + i * model->fetch_count;
    TRITONSERVER_Error *error =
        backend_outputs_wanted(self->batch.requests[i], names, model->fetch_count, wanted);
    if (error != NULL)
      backend_batch_fail(&self->batch, i, error);
  }
  for (size_t k = 0; k < model->fetch_count; k++)
    if (is_wanted(self, k))
      run->fetches[run->fetch_count++] = &model->fetches[k];
  return NULL;
}

// ---- computed in place ----

// Whether the model promises as many rows as an input has. On a GPU a room cannot be given back, so
// a likely size is not enough.
static bool keeps_rows(const framework_model *model, const framework_tensor *tensor)
{
  if (tensor->shape.dims[0] >= 0)
    return true;
  for (size_t i = 0; i < model->signature.inputs.count; i++) {
    const char *name = model->signature.inputs.list[i].rows_name;
    if (tensor->rows_name != NULL && name != NULL && strcmp(tensor->rows_name, name) == 0)
      return true;
  }
  return false;
}

// Whether the output's shape is known before the run, and all of it belongs to one response.
static bool has_known_shape(const batch_run *self, const framework_fetch *fetch,
                            backend_shape *shape)
{
  const framework_tensor *tensor = fetch->tensor;
  if (fetch->is_state || fetch->scatter != NULL || tensor->any_rank || tensor->shape.rank == 0 ||
      tensor->any_type || fetch->datatype == TRITONSERVER_TYPE_BYTES)
    return false;
  if (self->run.instance->device != NULL && !keeps_rows(self->run.instance->model, tensor))
    return false;
  *shape = tensor->shape;
  if (self->run.instance->model->max_batch_size > 0)
    shape->dims[0] = self->run.rows;
  for (size_t i = 0; i < shape->rank; i++)
    if (shape->dims[i] < 0)
      return false;
  return true;
}

// Shape and bytes of an output's room; false: it has none.
static bool plan_room(const batch_run *self, const framework_fetch *fetch, backend_shape *shape,
                      size_t *size)
{
  const size_t item_size = TRITONSERVER_DataTypeByteSize(fetch->datatype);
  return has_known_shape(self, fetch, shape) &&
         backend_element_count(shape->dims, shape->rank, size) &&
         !__builtin_mul_overflow(*size, item_size, size) && *size > 0;
}

static TRITONSERVER_Error *make_room(batch_run *self, const framework_fetch *fetch,
                                     framework_room *room)
{
  backend_shape shape;
  size_t size = 0;
  if (!plan_room(self, fetch, &shape, &size))
    return NULL;
  int64_t *dims = arena_allocate_array(&self->run.memory, shape.rank, sizeof(*dims));
  if (dims == NULL)
    return backend_error_no_memory("a batch");
  memcpy(dims, shape.dims, shape.rank * sizeof(*dims));
  room->dims = dims;
  room->rank = shape.rank;
  room->byte_size = size;
  if (self->run.instance->device != NULL)
    return backend_output_ask(self->batch.responses[0], fetch->name, fetch->datatype, dims,
                              (uint32_t)shape.rank, size,
                              backend_device_place(self->run.instance->device), &room->device);
  return backend_output_open(self->batch.responses[0], fetch->name, fetch->datatype, dims,
                             (uint32_t)shape.rank, size, &room->output);
}

// Only a single request may have rooms. On a GPU, where nearly all outputs can have them, either
// all do or none, so that the response keeps the model's order.
static bool may_have_rooms(const batch_run *self)
{
  const framework_run *run = &self->run;
  if (self->batch.count != 1 || !backend_batch_alive(&self->batch, 0))
    return false;
  for (size_t k = 0; run->instance->device != NULL && k < run->fetch_count; k++) {
    backend_shape shape;
    size_t size = 0;
    if (!plan_room(self, run->fetches[k], &shape, &size))
      return false;
  }
  return framework_definition.has_room || run->instance->device != NULL;
}

TRITONSERVER_Error *framework_make_rooms(batch_run *self)
{
  framework_run *run = &self->run;
  run->rooms = arena_allocate_array(&run->memory, run->fetch_count + 1, sizeof(*run->rooms));
  if (run->rooms == NULL)
    return backend_error_no_memory("a batch");
  memset(run->rooms, 0, (run->fetch_count + 1) * sizeof(*run->rooms));
  if (!may_have_rooms(self))
    return NULL;
  for (size_t k = 0; k < run->fetch_count; k++)
    if (request_wants(self, 0, run->fetches[k]))
      BACKEND_RETURN_IF_ERROR(make_room(self, run->fetches[k], &run->rooms[k]));
  return NULL;
}

// ---- rows ----

// Answers a request with an error, which is taken: at once, or on a GPU after its copies.
static void fail(batch_run *self, uint32_t request, TRITONSERVER_Error *error_owned)
{
  if (self->run.instance->transfer != NULL)
    backend_transfer_fail(self->run.instance->transfer, request, error_owned);
  else
    backend_batch_fail(&self->batch, request, error_owned);
}

// An output that was read, and its fetch.
typedef struct output_rows {
  const framework_fetch *fetch;
  framework_output value;
  size_t element_count;
} output_rows;

// The size in bytes of elements [begin, begin + count) in a response.
static size_t elements_size(const output_rows *output, size_t begin, size_t count)
{
  const size_t *offsets = output->value.offsets;
  if (offsets == NULL)
    return count * TRITONSERVER_DataTypeByteSize(output->value.datatype);
  return offsets[begin + count] - offsets[begin] + 4 * count;
}

static void copy_elements(const output_rows *output, size_t begin, size_t count, char *to)
{
  const framework_output *value = &output->value;
  if (value->offsets == NULL) {
    size_t size = TRITONSERVER_DataTypeByteSize(value->datatype);
    if (count > 0)
      memcpy(to, value->data + begin * size, count * size);
    return;
  }
  for (size_t i = begin; i < begin + count; i++) {
    size_t length = value->offsets[i + 1] - value->offsets[i];
    for (int k = 0; k < 4; k++)
      *to++ = (char)(length >> 8 * k);
    memcpy(to, value->data + value->offsets[i], length);
    to += length;
  }
}

// The address of the element `begin` on the device.
static const char *rows_on_device(const output_rows *output, size_t begin)
{
  return output->value.data + begin * TRITONSERVER_DataTypeByteSize(output->value.datatype);
}

static TRITONSERVER_Error *give_rows(batch_run *self, const output_rows *output, uint32_t i,
                                     const backend_shape *shape, size_t begin, size_t count)
{
  backend_output room;
  size_t size = elements_size(output, begin, count);
  if (output->value.on_device) {
    backend_transfer_output(self->run.instance->transfer, i, output->fetch->name,
                            output->value.datatype, shape->dims, (uint32_t)shape->rank,
                            rows_on_device(output, begin), size);
    return NULL;
  }
  BACKEND_RETURN_IF_ERROR(backend_output_open(self->batch.responses[i], output->fetch->name,
                                              output->value.datatype, shape->dims,
                                              (uint32_t)shape->rank, size, &room));
  copy_elements(output, begin, count, room.data);
  return backend_output_close(&room);
}

static TRITONSERVER_Error *keep_rows(batch_run *self, const output_rows *output, uint32_t i,
                                     const backend_shape *shape, size_t begin, size_t count)
{
  TRITONBACKEND_State *state = NULL;
  backend_output room;
  size_t size = elements_size(output, begin, count);
  if (output->value.on_device) {
    backend_transfer_state(self->run.instance->transfer, i, output->fetch->name,
                           output->value.datatype, shape->dims, (uint32_t)shape->rank,
                           rows_on_device(output, begin), size);
    return NULL;
  }
  BACKEND_RETURN_IF_ERROR(backend_state_open(self->batch.requests[i], output->fetch->name,
                                             output->value.datatype, shape->dims,
                                             (uint32_t)shape->rank, size, &state, &room));
  copy_elements(output, begin, count, room.data);
  BACKEND_RETURN_IF_ERROR(backend_output_close(&room));
  return TRITONBACKEND_StateUpdate(state);
}

// A scalar gets the configured shape of one element, mostly [1].
static backend_shape answered_shape(const output_rows *output)
{
  const backend_shape *scalar = &output->fetch->scalar_shape;
  size_t count = 0;
  if (output->value.shape.rank == 0 && backend_element_count(scalar->dims, scalar->rank, &count) &&
      count == 1)
    return *scalar;
  return output->value.shape;
}

// Triton's text.
static TRITONSERVER_Error *too_few_rows(TRITONBACKEND_Request *request, const output_rows *output,
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

// Gives request `i` the rows from `begin` on, as an output and as its sequence's state.
static TRITONSERVER_Error *deal_one(batch_run *self, const output_rows *output, uint32_t i,
                                    const backend_shape *shape, size_t begin, size_t count)
{
  if (request_wants(self, i, output->fetch))
    BACKEND_RETURN_IF_ERROR(give_rows(self, output, i, shape, begin, count));
  return output->fetch->is_state ? keep_rows(self, output, i, shape, begin, count) : NULL;
}

// Gives each request its rows of the output, in order. As in Triton, surplus rows are dropped, and
// requests without rows fail. A model that does not batch has one request.
static void deal(batch_run *self, const output_rows *output)
{
  bool batching = self->run.instance->model->max_batch_size > 0;
  backend_shape shape = answered_shape(output);
  int64_t rows = batching && shape.rank > 0 ? shape.dims[0] : 1, begin = 0;
  size_t row_elements = rows > 0 ? output->element_count / (size_t)rows : 0;
  for (uint32_t i = 0; i < self->batch.count; i++) {
    int64_t wanted = self->rows[i];
    bool is_due = request_wants(self, i, output->fetch) || output->fetch->is_state;
    if (batching && shape.rank > 0)
      shape.dims[0] = wanted;
    if (is_due && backend_batch_alive(&self->batch, i)) {
      TRITONSERVER_Error *error =
          begin + wanted > rows
              ? too_few_rows(self->batch.requests[i], output, begin + wanted, rows)
              : deal_one(self, output, i, &shape, (size_t)begin * row_elements,
                         (size_t)wanted * row_elements);
      if (error != NULL)
        fail(self, i, error);
    }
    begin += wanted;
  }
}

// ---- elements ----

static TRITONSERVER_Error *too_few_elements(const output_rows *output, size_t wanted)
{
  return backend_error(TRITONSERVER_ERROR_UNSUPPORTED,
                       "failed to scatter the output tensor '%s': expected at least %zu elements "
                       "in model output, got %zu",
                       output->fetch->name, wanted, output->element_count);
}

// Gives each request as many elements as its shape has, in order; surplus elements are dropped. An
// unknown shape is an error, because the places of the later elements are then unknown, too.
static TRITONSERVER_Error *scatter(batch_run *self, const output_rows *output)
{
  const framework_fetch *fetch = output->fetch;
  size_t begin = 0, count = 0;
  framework_find_inputs(self, &self->run.instance->model->feeds[fetch->source]);
  for (uint32_t i = 0; i < self->batch.count; i++) {
    backend_shape shape;
    if (self->inputs[i].input == NULL && !backend_batch_alive(&self->batch, i))
      continue; // it has no elements in the batch
    BACKEND_RETURN_IF_ERROR(backend_scatter_shape(fetch->scatter, &self->inputs[i], &shape));
    if (!backend_element_count(shape.dims, shape.rank, &count) ||
        count > output->element_count - begin)
      return too_few_elements(output, begin + count);
    if (request_wants(self, i, fetch) && backend_batch_alive(&self->batch, i)) {
      TRITONSERVER_Error *error = give_rows(self, output, i, &shape, begin, count);
      if (error != NULL)
        fail(self, i, error);
    }
    begin += count;
  }
  return NULL;
}

// ---- all outputs ----

// The response's output was made before the run, so the computed one must match it.
static TRITONSERVER_Error *fill_room(const batch_run *self, framework_room *room,
                                     const output_rows *output)
{
  const framework_instance *instance = self->run.instance;
  const size_t size = elements_size(output, 0, output->element_count);
  const backend_shape *shape = &output->value.shape;
  if (shape->rank != room->rank || size != room->byte_size ||
      memcmp(shape->dims, room->dims, room->rank * sizeof(*room->dims)) != 0) {
    char given[BACKEND_SHAPE_TEXT], said[BACKEND_SHAPE_TEXT];
    backend_shape expected;
    BACKEND_RETURN_IF_ERROR(
        backend_shape_set(&expected, room->dims, room->rank, output->fetch->name));
    return backend_error_internal("output '%s' has the shape %s where the model says %s",
                                  output->fetch->name, backend_shape_text(shape, given),
                                  backend_shape_text(&expected, said));
  }
  if (instance->device != NULL) {
    const gpu_place from = output->value.on_device ? backend_device_place(instance->device)
                                                   : (gpu_place){.kind = GPU_MEMORY_HOST};
    if (output->value.data != room->device.data)
      backend_transfer_copy(instance->transfer, 0, room->device.data, room->device.place,
                            output->value.data, from, size, output->fetch->name);
    return NULL;
  }
  if (output->value.data != room->output.data && size > 0)
    memcpy(room->output.data, output->value.data, size);
  return backend_output_close(&room->output);
}

// For a type that the model did not give at load.
static TRITONSERVER_Error *check_type(const output_rows *output)
{
  const framework_fetch *fetch = output->fetch;
  if (!fetch->tensor->any_type || output->value.datatype == fetch->datatype)
    return NULL;
  return backend_error_invalid(
      "configuration expects datatype %s for output '%s', model provides %s", fetch->type_text,
      fetch->name, framework_config_type(output->value.datatype));
}

static TRITONSERVER_Error *give_output(batch_run *self, size_t index)
{
  framework_run *run = &self->run;
  output_rows output = {.fetch = run->fetches[index]};
  BACKEND_RETURN_IF_ERROR(framework_definition.read_output(run, index, &output.value));
  if (!backend_element_count(output.value.shape.dims, output.value.shape.rank,
                             &output.element_count))
    return backend_error_internal("output '%s' has an impossible shape", output.fetch->name);
  BACKEND_RETURN_IF_ERROR(check_type(&output));
  if (run->rooms[index].dims != NULL)
    return fill_room(self, &run->rooms[index], &output);
  if (output.fetch->scatter != NULL)
    return scatter(self, &output);
  deal(self, &output);
  return NULL;
}

void framework_drop_rooms(batch_run *self)
{
  for (size_t k = 0; self->run.rooms != NULL && k < self->run.fetch_count; k++)
    backend_output_drop(&self->run.rooms[k].output);
}

TRITONSERVER_Error *framework_give_outputs(batch_run *self)
{
  for (size_t k = 0; k < self->run.fetch_count; k++)
    BACKEND_RETURN_IF_ERROR(give_output(self, k));
  return NULL;
}
