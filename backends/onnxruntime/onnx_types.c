// SPDX-License-Identifier: Apache-2.0
// Asks a session for its inputs and outputs.
#include "onnx_types.h"

#include "backend_error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  ort_element_type element_type;
  TRITONSERVER_DataType datatype;
} element_types[] = {
    {ORT_ELEMENT_FLOAT, TRITONSERVER_TYPE_FP32},    {ORT_ELEMENT_UINT8, TRITONSERVER_TYPE_UINT8},
    {ORT_ELEMENT_INT8, TRITONSERVER_TYPE_INT8},     {ORT_ELEMENT_UINT16, TRITONSERVER_TYPE_UINT16},
    {ORT_ELEMENT_INT16, TRITONSERVER_TYPE_INT16},   {ORT_ELEMENT_INT32, TRITONSERVER_TYPE_INT32},
    {ORT_ELEMENT_INT64, TRITONSERVER_TYPE_INT64},   {ORT_ELEMENT_STRING, TRITONSERVER_TYPE_BYTES},
    {ORT_ELEMENT_BOOL, TRITONSERVER_TYPE_BOOL},     {ORT_ELEMENT_FLOAT16, TRITONSERVER_TYPE_FP16},
    {ORT_ELEMENT_DOUBLE, TRITONSERVER_TYPE_FP64},   {ORT_ELEMENT_UINT32, TRITONSERVER_TYPE_UINT32},
    {ORT_ELEMENT_UINT64, TRITONSERVER_TYPE_UINT64}, {ORT_ELEMENT_BFLOAT16, TRITONSERVER_TYPE_BF16},
};
#define ELEMENT_TYPE_COUNT (sizeof(element_types) / sizeof(element_types[0]))

TRITONSERVER_DataType onnx_datatype(ort_element_type type)
{
  for (size_t i = 0; i < ELEMENT_TYPE_COUNT; i++)
    if (element_types[i].element_type == type)
      return element_types[i].datatype;
  return TRITONSERVER_TYPE_INVALID;
}

ort_element_type onnx_element_type(TRITONSERVER_DataType datatype)
{
  for (size_t i = 0; i < ELEMENT_TYPE_COUNT; i++)
    if (element_types[i].datatype == datatype)
      return element_types[i].element_type;
  return ORT_ELEMENT_UNDEFINED;
}

// The functions of one list; all three lists have the same forms.
typedef struct list_functions {
  ort_status *(*count)(const ort_session *, size_t *);
  ort_status *(*name)(const ort_session *, size_t, ort_allocator *, char **);
  ort_status *(*type)(const ort_session *, size_t, ort_type_info **);
} list_functions;

// For types that are not tensors, such as a sequence or a map.
static TRITONSERVER_Error *refuse(framework_tensor *tensor, ort_kind kind)
{
  static const char *const kinds[] = {
      "ONNX_TYPE_UNKNOWN", "ONNX_TYPE_TENSOR",       "ONNX_TYPE_SEQUENCE", "ONNX_TYPE_MAP",
      "ONNX_TYPE_OPAQUE",  "ONNX_TYPE_SPARSETENSOR", "ONNX_TYPE_OPTIONAL"};
  const char *name = (size_t)kind < sizeof(kinds) / sizeof(kinds[0]) ? kinds[kind] : kinds[0];
  if (asprintf(&tensor->refusal,
               "Unsupported ONNX Type '%s' for I/O '%s', expected 'ONNX_TYPE_TENSOR'.", name,
               tensor->name) >= 0)
    return NULL;
  tensor->refusal = NULL;
  return backend_error_no_memory("the model's tensors");
}

static TRITONSERVER_Error *read_rows_name(const ort_runtime *runtime, const ort_tensor_info *info,
                                          framework_tensor *tensor)
{
  const char *names[BACKEND_MAX_RANK] = {NULL};
  if (tensor->shape.rank == 0 || tensor->shape.dims[0] >= 0)
    return NULL;
  ORT_RETURN_IF_ERROR(runtime, runtime->api.GetSymbolicDimensions(info, names, tensor->shape.rank));
  if (names[0] == NULL || names[0][0] == '\0')
    return NULL;
  tensor->rows_name = strdup(names[0]);
  return tensor->rows_name != NULL ? NULL : backend_error_no_memory("the model's tensors");
}

// ONNX Runtime gives rank 0 both for a scalar and for a model without a shape.
static TRITONSERVER_Error *read_type(const ort_runtime *runtime, const ort_type_info *info,
                                     framework_tensor *tensor)
{
  const ort_api *api = &runtime->api;
  const ort_tensor_info *tensor_info = NULL; // part of `info`
  ort_kind kind = ORT_KIND_UNKNOWN;
  ort_element_type type = ORT_ELEMENT_UNDEFINED;
  size_t rank = 0;
  ORT_RETURN_IF_ERROR(runtime, api->GetOnnxTypeFromTypeInfo(info, &kind));
  if (kind != ORT_KIND_TENSOR)
    return refuse(tensor, kind);
  ORT_RETURN_IF_ERROR(runtime, api->CastTypeInfoToTensorInfo(info, &tensor_info));
  ORT_RETURN_IF_ERROR(runtime, api->GetTensorElementType(tensor_info, &type));
  ORT_RETURN_IF_ERROR(runtime, api->GetDimensionsCount(tensor_info, &rank));
  BACKEND_RETURN_IF_ERROR(
      backend_shape_set(&tensor->shape, NULL, rank > BACKEND_MAX_RANK ? rank : 0, tensor->name));
  tensor->datatype = onnx_datatype(type);
  tensor->native_type = type;
  tensor->any_rank = rank == 0;
  tensor->shape.rank = rank;
  ORT_RETURN_IF_ERROR(runtime, api->GetDimensions(tensor_info, tensor->shape.dims, rank));
  return read_rows_name(runtime, tensor_info, tensor);
}

static TRITONSERVER_Error *read_tensor(const ort_runtime *runtime, const ort_session *session,
                                       const list_functions *functions, size_t index,
                                       framework_tensor *tensor)
{
  char *name = NULL;
  ORT_RETURN_IF_ERROR(runtime, functions->name(session, index, runtime->allocator, &name));
  tensor->name = strdup(name);
  ORT_RETURN_IF_ERROR(runtime, runtime->api.AllocatorFree(runtime->allocator, name));
  if (tensor->name == NULL)
    return backend_error_no_memory("the model's tensors");
  ort_type_info *info = NULL;
  ORT_RETURN_IF_ERROR(runtime, functions->type(session, index, &info));
  TRITONSERVER_Error *error = read_type(runtime, info, tensor);
  runtime->api.ReleaseTypeInfo(info);
  return error;
}

static TRITONSERVER_Error *read_list(const ort_runtime *runtime, const ort_session *session,
                                     const list_functions *functions, framework_tensors *tensors)
{
  ORT_RETURN_IF_ERROR(runtime, functions->count(session, &tensors->count));
  tensors->list = calloc(tensors->count + 1, sizeof(*tensors->list));
  if (tensors->list == NULL) {
    tensors->count = 0;
    return backend_error_no_memory("the model's tensors");
  }
  for (size_t i = 0; i < tensors->count; i++)
    BACKEND_RETURN_IF_ERROR(read_tensor(runtime, session, functions, i, &tensors->list[i]));
  return NULL;
}

TRITONSERVER_Error *onnx_signature_read(const ort_runtime *runtime, const ort_session *session,
                                        framework_signature *signature)
{
  const ort_api *api = &runtime->api;
  const list_functions inputs = {api->SessionGetInputCount, api->SessionGetInputName,
                                 api->SessionGetInputTypeInfo};
  const list_functions outputs = {api->SessionGetOutputCount, api->SessionGetOutputName,
                                  api->SessionGetOutputTypeInfo};
  const list_functions overridable = {api->SessionGetOverridableInitializerCount,
                                      api->SessionGetOverridableInitializerName,
                                      api->SessionGetOverridableInitializerTypeInfo};
  BACKEND_RETURN_IF_ERROR(read_list(runtime, session, &inputs, &signature->inputs));
  BACKEND_RETURN_IF_ERROR(read_list(runtime, session, &outputs, &signature->outputs));
  return read_list(runtime, session, &overridable, &signature->overridable);
}
