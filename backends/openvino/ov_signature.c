// SPDX-License-Identifier: Apache-2.0
// The tensors of a model, and the layouts in an IR.
#include "ov_model.h"

#include "backend_error.h"
#include "backend_file.h"
#include "base/cleanup.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_TEXT_BYTES ((size_t)INT32_MAX)

static TRITONSERVER_Error *read_shape(const ov_runtime *runtime, const ov_port *port,
                                      framework_tensor *tensor)
{
  ov_partial_shape shape = {0};
  OV_TRY(runtime, port_get_partial_shape(port, &shape), "retrieving original shapes");
  TRITONSERVER_Error *error = NULL;
  tensor->any_rank = shape.rank.min != shape.rank.max;
  const size_t rank = tensor->any_rank ? 0 : (size_t)shape.rank.max;
  if (rank > BACKEND_MAX_RANK)
    error = backend_shape_set(&tensor->shape, NULL, rank, tensor->name);
  for (size_t i = 0; error == NULL && i < rank; i++)
    tensor->shape.dims[i] = shape.dims[i].min == shape.dims[i].max ? shape.dims[i].max : -1;
  if (error == NULL)
    tensor->shape.rank = rank;
  runtime->api.partial_shape_free(&shape);
  return error;
}

// Requests cannot use a type that the protocol lacks, but a configuration may convert it to
// another.
static TRITONSERVER_Error *read_type(const framework_model *model, const ov_port *port,
                                     framework_tensor *tensor)
{
  const ov_runtime *runtime = ov_runtime_of(model);
  OV_TRY(runtime, port_get_element_type(port, &tensor->native_type), "retrieving original types");
  tensor->datatype = ov_datatype_of(runtime, tensor->native_type);
  if (tensor->datatype != TRITONSERVER_TYPE_INVALID)
    return NULL;
  if (asprintf(&tensor->refusal, "unsupported datatype %s for '%s' for model '%s'",
               tensor->native_type == OV_STRING + runtime->element_shift ? "TYPE_STRING"
                                                                         : "TYPE_INVALID",
               tensor->name, model->name) >= 0)
    return NULL;
  tensor->refusal = NULL;
  return backend_error_no_memory("the model's tensors");
}

static TRITONSERVER_Error *read_port(const framework_model *model, const ov_port *port,
                                     framework_tensor *tensor)
{
  const ov_runtime *runtime = ov_runtime_of(model);
  char *name = NULL;
  OV_TRY(runtime, port_get_any_name(port, &name), "getting a tensor's name");
  tensor->name = strdup(name);
  runtime->api.free(name);
  if (tensor->name == NULL)
    return backend_error_no_memory("the model's tensors");
  BACKEND_RETURN_IF_ERROR(read_shape(runtime, port, tensor));
  return read_type(model, port, tensor);
}

typedef int get_port(const ov_model *, size_t, ov_port **);

static TRITONSERVER_Error *read_list(const framework_model *model, get_port *get, size_t count,
                                     framework_tensors *tensors)
{
  const ov_runtime *runtime = ov_runtime_of(model);
  framework_tensors_clear(tensors);
  tensors->list = calloc(count + 1, sizeof(*tensors->list));
  if (tensors->list == NULL)
    return backend_error_no_memory("the model's tensors");
  for (tensors->count = 0; tensors->count < count;) {
    framework_tensor *tensor = &tensors->list[tensors->count];
    ov_port *port = NULL;
    tensor->position = tensors->count++;
    BACKEND_RETURN_IF_ERROR(ov_error(
        runtime, get(ov_state_of(model)->model, tensor->position, &port), "getting input infos"));
    TRITONSERVER_Error *error = read_port(model, port, tensor);
    runtime->api.output_const_port_free(port);
    BACKEND_RETURN_IF_ERROR(error);
  }
  return NULL;
}

TRITONSERVER_Error *ov_signature_read(framework_model *model)
{
  const ov_runtime *runtime = ov_runtime_of(model);
  const ov_model *read = ov_state_of(model)->model;
  size_t inputs = 0, outputs = 0;
  OV_TRY(runtime, model_inputs_size(read, &inputs), "getting input infos");
  OV_TRY(runtime, model_outputs_size(read, &outputs), "getting output infos");
  BACKEND_RETURN_IF_ERROR(
      read_list(model, runtime->api.model_const_input_by_index, inputs, &model->signature.inputs));
  return read_list(model, runtime->api.model_const_output_by_index, outputs,
                   &model->signature.outputs);
}

// ---- layouts ----

// An IR writes a tensor's layout at the port that makes it:
//   <port names="X" ...> ... <attribute name="layout" version="0" layout="[N,C,H,W]"/> ... </port>
static bool has_batch(const char *text, const char *name)
{
  static const char names[] = " names=\"", layout[] = " layout=\"";
  for (const char *at = text; (at = strstr(at, names)) != NULL;) {
    at += sizeof(names) - 1;
    if (!ov_has_word(at, strcspn(at, "\""), name))
      continue;
    const char *end = strstr(at, "</port>");
    const char *value =
        end == NULL ? NULL : memmem(at, (size_t)(end - at), layout, sizeof(layout) - 1);
    if (value != NULL) {
      value += sizeof(layout) - 1;
      return memchr(value, 'N', strcspn(value, "\"")) != NULL;
    }
  }
  return false;
}

static bool all_have_batch(const char *text, const framework_tensors *tensors)
{
  for (size_t i = 0; i < tensors->count; i++)
    if (!has_batch(text, tensors->list[i].name))
      return false;
  return true;
}

bool ov_layouts_have_batch(const framework_model *model)
{
  const char *path = ov_state_of(model)->file;
  void *text AUTO_FREE = NULL;
  size_t size = 0;
  int file = -1;
  if (!text_ends_with(path, ".xml"))
    return false;
  TRITONSERVER_Error *error = backend_open_file(model->model, path, &file);
  if (error == NULL)
    error = backend_read_file(file, path, MAX_TEXT_BYTES, &text, &size);
  if (file >= 0)
    close(file);
  TRITONSERVER_ErrorDelete(error); // OpenVINO could read it
  if (text == NULL)
    return false;
  ((char *)text)[size] = '\0'; // the buffer has a byte for it
  return all_have_batch(text, &model->signature.inputs) &&
         all_have_batch(text, &model->signature.outputs);
}
