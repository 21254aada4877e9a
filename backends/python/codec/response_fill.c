// SPDX-License-Identifier: Apache-2.0
// Checks and copies a worker's answers. The thread that uses the request.
#include "codec/response_fill.h"

#include "backend_error.h"
#include "backend_tensor.h"

#include <string.h>

static TRITONSERVER_Error *unreadable(const output_signature *signature)
{
  return backend_error_internal(
      "the Python worker of model '%s' gave a response that cannot be read", signature->model);
}

static bool has_output(const output_signature *signature, const char *name)
{
  for (size_t i = 0; i < signature->count; i++)
    if (strcmp(signature->outputs[i].name, name) == 0)
      return true;
  return false;
}

static const state_signature *find_state(const output_signature *signature, const char *name)
{
  for (size_t i = 0; i < signature->state_count; i++)
    if (strcmp(signature->states[i].name, name) == 0)
      return &signature->states[i];
  return NULL;
}

// The target of a tensor: a response, or the next state of a request's sequence.
typedef struct destination {
  TRITONBACKEND_Response *response;
  TRITONBACKEND_Request *request;
  bool is_state;
  TRITONBACKEND_State *state; // set once it has memory
} destination;

// Adds the output and copies the tensor, from or to a device.
static TRITONSERVER_Error *add_on_device(destination *to, const char *model, device_share *devices,
                                         const wire_tensor *tensor)
{
  const gpu_place from_place = {.kind = GPU_MEMORY_DEVICE, .device = tensor->device};
  const void *from = device_share_at(devices, tensor->device, tensor->offset, tensor->byte_size);
  if (from == NULL)
    return backend_error_internal("output '%s' of model '%s' is not in the memory of GPU %d that "
                                  "its worker shares",
                                  tensor->name, model, tensor->device);
  backend_room room;
  const int64_t *dims = tensor->shape.dims;
  const uint32_t rank = (uint32_t)tensor->shape.rank;
  BACKEND_RETURN_IF_ERROR(
      to->is_state ? backend_state_ask(to->request, tensor->name, tensor->datatype, dims, rank,
                                       tensor->byte_size, from_place, &to->state, &room)
                   : backend_output_ask(to->response, tensor->name, tensor->datatype, dims, rank,
                                        tensor->byte_size, from_place, &room));
  return device_share_copy(room.data, room.place, from, from_place, tensor->byte_size, "output",
                           tensor->name);
}

static TRITONSERVER_Error *open_on_host(destination *to, const wire_tensor *tensor,
                                        backend_output *output)
{
  const int64_t *dims = tensor->shape.dims;
  const uint32_t rank = (uint32_t)tensor->shape.rank;
  return to->is_state ? backend_state_open(to->request, tensor->name, tensor->datatype, dims, rank,
                                           tensor->byte_size, &to->state, output)
                      : backend_output_open(to->response, tensor->name, tensor->datatype, dims,
                                            rank, tensor->byte_size, output);
}

static TRITONSERVER_Error *copy_tensor(destination *to, const output_signature *signature,
                                       device_share *devices, const wire_tensor *tensor)
{
  backend_output output;
  size_t count = 0;
  if (!wire_tensor_size_fits(tensor))
    return backend_error_internal(
        "output '%s' of model '%s' has %zu bytes, which is not what its shape needs", tensor->name,
        signature->model, tensor->byte_size);
  if (tensor->device >= 0)
    return add_on_device(to, signature->model, devices, tensor);
  BACKEND_RETURN_IF_ERROR(open_on_host(to, tensor, &output));
  if (tensor->byte_size > 0)
    memcpy(output.data, tensor->data, tensor->byte_size);
  // Checked in the copy, which the worker cannot change.
  if (tensor->datatype == TRITONSERVER_TYPE_BYTES &&
      (!backend_element_count(tensor->shape.dims, tensor->shape.rank, &count) ||
       !wire_bytes_fit(output.data, tensor->byte_size, count))) {
    backend_output_drop(&output);
    return backend_error_internal(
        "output '%s' of model '%s' is not the BYTES elements of its shape", tensor->name,
        signature->model);
  }
  return backend_output_close(&output);
}

// Sets the next state of the sequence. *is_output: the tensor is an output, too, listed and
// requested. The worker sends states in any case.
static TRITONSERVER_Error *keep_tensor(TRITONBACKEND_Request *request,
                                       const output_signature *signature,
                                       const state_signature *state, device_share *devices,
                                       const wire_tensor *tensor, bool *is_output)
{
  const char *name = state->name;
  destination to = {.request = request, .is_state = true};
  *is_output = false;
  if (request == NULL)
    return backend_error_invalid("state '%s' of model '%s' cannot be kept: the model is decoupled",
                                 name, signature->model);
  if (tensor->datatype != state->datatype)
    return backend_error_invalid("state '%s' of model '%s' is %s, its configuration says %s", name,
                                 signature->model, TRITONSERVER_DataTypeString(tensor->datatype),
                                 TRITONSERVER_DataTypeString(state->datatype));
  BACKEND_RETURN_IF_ERROR(copy_tensor(&to, signature, devices, tensor));
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_StateUpdate(to.state));
  return has_output(signature, name) ? backend_outputs_wanted(request, &name, 1, is_output) : NULL;
}

static TRITONSERVER_Error *add_tensor(destination *to, const output_signature *signature,
                                      device_share *devices, const wire_tensor *tensor)
{
  const state_signature *state = find_state(signature, tensor->name);
  if (state != NULL) {
    bool is_output;
    BACKEND_RETURN_IF_ERROR(
        keep_tensor(to->request, signature, state, devices, tensor, &is_output));
    if (!is_output)
      return NULL;
  }
  if (!has_output(signature, tensor->name))
    return backend_output_leave_out(to->response, tensor->name);
  return copy_tensor(to, signature, devices, tensor);
}

static TRITONSERVER_Error *add_parameter(TRITONBACKEND_Response *response, const char *key,
                                         const json_t *value)
{
  switch (json_typeof(value)) {
  case JSON_STRING:
    return TRITONBACKEND_ResponseSetStringParameter(response, key, json_string_value(value));
  case JSON_INTEGER:
    return TRITONBACKEND_ResponseSetIntParameter(response, key, json_integer_value(value));
  case JSON_TRUE:
  case JSON_FALSE:
    return TRITONBACKEND_ResponseSetBoolParameter(response, key, json_is_true(value));
  case JSON_REAL:
    return TRITONBACKEND_ResponseSetDoubleParameter(response, key, json_real_value(value));
  default:
    return backend_error_invalid(
        "Expected key or value to be a string, integer, boolean or number in the "
        "response parameter '%s'",
        key);
  }
}

static TRITONSERVER_Error *add_parameters(TRITONBACKEND_Response *response, const char *text,
                                          size_t length)
{
  if (length == 0)
    return NULL;
  json_auto_t *parameters = json_loadb(text, length, 0, NULL);
  if (!json_is_object(parameters))
    return backend_error_internal("the parameters of a response are no JSON object");
  const char *key;
  json_t *value;
  json_object_foreach(parameters, key, value)
  {
    BACKEND_RETURN_IF_ERROR(add_parameter(response, key, value));
  }
  return NULL;
}

void response_skip(const channel *channel, wire_reader *reader, const wire_response *head)
{
  wire_tensor tensor;
  for (uint32_t i = 0; i < head->tensor_count && !reader->bad; i++)
    wire_tensor_read(reader, channel, &tensor);
}

TRITONSERVER_Error *response_fill(TRITONBACKEND_Response *response, TRITONBACKEND_Request *request,
                                  const output_signature *signature, const channel *channel,
                                  device_share *devices, wire_reader *reader,
                                  const wire_response *head)
{
  if (reader->bad)
    return unreadable(signature);
  if (head->kind == RESPONSE_ERROR)
    return backend_error(head->code, "%.*s", (int)head->text_length, head->text);
  destination to = {.response = response, .request = request};
  TRITONSERVER_Error *error = add_parameters(response, head->text, head->text_length);
  for (uint32_t i = 0; i < head->tensor_count && !reader->bad; i++) {
    wire_tensor tensor;
    wire_tensor_read(reader, channel, &tensor);
    if (error == NULL)
      error = reader->bad ? unreadable(signature) : add_tensor(&to, signature, devices, &tensor);
  }
  return error;
}
