// Checks and copies what a worker answered. The thread that has the request.
#include "response_fill.h"

#include "backend_error.h"
#include "backend_log.h"
#include "backend_tensor.h"

#include <string.h>

static TRITONSERVER_Error *unreadable(const python_model *model)
{
  return backend_error(TRITONSERVER_ERROR_INTERNAL,
                       "the Python worker of model '%s' gave a response that cannot be read",
                       model->name);
}

// ---- checks

static bool dims_fit(const int64_t *dims, const backend_shape *wanted)
{
  for (size_t i = 0; i < wanted->rank; i++)
    if (wanted->dims[i] != -1 && wanted->dims[i] != dims[i])
      return false;
  return true;
}

static TRITONSERVER_Error *check_shape(const python_model *model, const wire_tensor *tensor,
                                       const backend_tensor_config *config)
{
  char given[BACKEND_SHAPE_TEXT], wanted[BACKEND_SHAPE_TEXT];
  size_t batch = model->max_batch_size > 0 ? 1 : 0;
  backend_shape expected = config->model_dims;
  if (tensor->shape.rank == expected.rank + batch &&
      dims_fit(tensor->shape.dims + batch, &expected))
    return NULL;
  return backend_error(TRITONSERVER_ERROR_INTERNAL,
                       "output '%s' of model '%s' has shape %s, the model's configuration says "
                       "%s%s",
                       tensor->name, model->name, backend_shape_text(&tensor->shape, given),
                       backend_shape_text(&expected, wanted),
                       batch == 0 ? "" : " after the dimension of the batch");
}

typedef enum number_kind {
  NO_NUMBER,
  INTEGER,
  REAL
} number_kind;

static number_kind kind_of(TRITONSERVER_DataType datatype)
{
  switch (datatype) {
  case TRITONSERVER_TYPE_UINT8:
  case TRITONSERVER_TYPE_UINT16:
  case TRITONSERVER_TYPE_UINT32:
  case TRITONSERVER_TYPE_UINT64:
  case TRITONSERVER_TYPE_INT8:
  case TRITONSERVER_TYPE_INT16:
  case TRITONSERVER_TYPE_INT32:
  case TRITONSERVER_TYPE_INT64:
    return INTEGER;
  case TRITONSERVER_TYPE_FP16:
  case TRITONSERVER_TYPE_BF16:
  case TRITONSERVER_TYPE_FP32:
  case TRITONSERVER_TYPE_FP64:
    return REAL;
  default:
    return NO_NUMBER;
  }
}

// Numbers of another width than configured go to the client as they are: NumPy's defaults are INT64
// and FP64, and models that do not mind (examples of Triton's documentation among them) work there.
static TRITONSERVER_Error *check_datatype(const python_model *model, const wire_tensor *tensor,
                                          TRITONSERVER_DataType wanted)
{
  static const char text[] = "output '%s' of model '%s' is %s, the model's configuration says %s";
  if (tensor->datatype == wanted)
    return NULL;
  const char *given_name = TRITONSERVER_DataTypeString(tensor->datatype);
  const char *wanted_name = TRITONSERVER_DataTypeString(wanted);
  number_kind kind = kind_of(tensor->datatype);
  if (kind == NO_NUMBER || kind != kind_of(wanted))
    return backend_error(TRITONSERVER_ERROR_INTERNAL, text, tensor->name, model->name, given_name,
                         wanted_name);
  BACKEND_LOG_VERBOSE(text, tensor->name, model->name, given_name, wanted_name);
  return NULL;
}

static TRITONSERVER_Error *check_tensor(const python_model *model, const wire_tensor *tensor)
{
  const backend_tensor_config *config = python_model_output(model, tensor->name);
  if (config == NULL)
    return backend_error(TRITONSERVER_ERROR_INTERNAL,
                         "the model's configuration of '%s' has no output '%s'", model->name,
                         tensor->name);
  BACKEND_RETURN_IF_ERROR(check_datatype(model, tensor, config->datatype));
  BACKEND_RETURN_IF_ERROR(check_shape(model, tensor, config));
  if (!wire_tensor_size_fits(tensor))
    return backend_error(TRITONSERVER_ERROR_INTERNAL,
                         "output '%s' of model '%s' has %zu bytes, which is not what its shape "
                         "needs",
                         tensor->name, model->name, tensor->byte_size);
  return NULL;
}

// ---- filling

static TRITONSERVER_Error *add_tensor(TRITONBACKEND_Response *response, const python_model *model,
                                      const wire_tensor *tensor)
{
  void *data = NULL;
  size_t count = 0;
  BACKEND_RETURN_IF_ERROR(check_tensor(model, tensor));
  BACKEND_RETURN_IF_ERROR(backend_output_new(response, tensor->name, tensor->datatype,
                                             tensor->shape.dims, (uint32_t)tensor->shape.rank,
                                             tensor->byte_size, &data));
  if (tensor->byte_size > 0)
    memcpy(data, tensor->data, tensor->byte_size);
  // Looked at in the copy, which the worker cannot change any more.
  if (tensor->datatype == TRITONSERVER_TYPE_BYTES &&
      (!backend_element_count(tensor->shape.dims, tensor->shape.rank, &count) ||
       !wire_bytes_fit(data, tensor->byte_size, count)))
    return backend_error(TRITONSERVER_ERROR_INTERNAL,
                         "output '%s' of model '%s' is not the BYTES elements of its shape",
                         tensor->name, model->name);
  return NULL;
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
    return backend_error(TRITONSERVER_ERROR_INVALID_ARG,
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
  json_error_t problem;
  json_t *parameters = json_loadb(text, length, 0, &problem);
  if (!json_is_object(parameters)) {
    json_decref(parameters);
    return backend_error(TRITONSERVER_ERROR_INTERNAL,
                         "the parameters of a response are no JSON object");
  }
  TRITONSERVER_Error *error = NULL;
  const char *key;
  json_t *value;
  json_object_foreach(parameters, key, value)
  {
    if (error == NULL)
      error = add_parameter(response, key, value);
  }
  json_decref(parameters);
  return error;
}

TRITONSERVER_Error *response_fill(TRITONBACKEND_Response *response, const python_model *model,
                                  const channel *channel, wire_reader *reader,
                                  const wire_response *head)
{
  if (reader->bad)
    return unreadable(model);
  if (head->kind == RESPONSE_ERROR)
    return backend_error(head->code, "%.*s", (int)head->text_length, head->text);
  TRITONSERVER_Error *error = add_parameters(response, head->text, head->text_length);
  for (uint32_t i = 0; i < head->tensor_count && !reader->bad; i++) {
    wire_tensor tensor;
    wire_tensor_read(reader, channel, &tensor);
    if (!reader->bad && error == NULL)
      error = add_tensor(response, model, &tensor);
  }
  if (reader->bad && error == NULL)
    error = unreadable(model);
  return error;
}

void response_skip(const channel *channel, wire_reader *reader, const wire_response *head)
{
  for (uint32_t i = 0; i < head->tensor_count && !reader->bad; i++) {
    wire_tensor tensor;
    wire_tensor_read(reader, channel, &tensor);
  }
}
