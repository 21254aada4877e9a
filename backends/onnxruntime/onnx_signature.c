// Asks a session for its inputs and outputs; see onnx_signature.h.
#include "onnx_signature.h"

#include "backend_error.h"

#include <stdlib.h>
#include <string.h>

static const struct {
  ort_element_type element_type;
  TRITONSERVER_DataType datatype;
  const char *config_type;
} element_types[] = {
    {ORT_ELEMENT_FLOAT, TRITONSERVER_TYPE_FP32, "TYPE_FP32"},
    {ORT_ELEMENT_UINT8, TRITONSERVER_TYPE_UINT8, "TYPE_UINT8"},
    {ORT_ELEMENT_INT8, TRITONSERVER_TYPE_INT8, "TYPE_INT8"},
    {ORT_ELEMENT_UINT16, TRITONSERVER_TYPE_UINT16, "TYPE_UINT16"},
    {ORT_ELEMENT_INT16, TRITONSERVER_TYPE_INT16, "TYPE_INT16"},
    {ORT_ELEMENT_INT32, TRITONSERVER_TYPE_INT32, "TYPE_INT32"},
    {ORT_ELEMENT_INT64, TRITONSERVER_TYPE_INT64, "TYPE_INT64"},
    {ORT_ELEMENT_STRING, TRITONSERVER_TYPE_BYTES, "TYPE_STRING"},
    {ORT_ELEMENT_BOOL, TRITONSERVER_TYPE_BOOL, "TYPE_BOOL"},
    {ORT_ELEMENT_FLOAT16, TRITONSERVER_TYPE_FP16, "TYPE_FP16"},
    {ORT_ELEMENT_DOUBLE, TRITONSERVER_TYPE_FP64, "TYPE_FP64"},
    {ORT_ELEMENT_UINT32, TRITONSERVER_TYPE_UINT32, "TYPE_UINT32"},
    {ORT_ELEMENT_UINT64, TRITONSERVER_TYPE_UINT64, "TYPE_UINT64"},
    {ORT_ELEMENT_BFLOAT16, TRITONSERVER_TYPE_BF16, "TYPE_BF16"},
};
#define ELEMENT_TYPE_COUNT (sizeof(element_types) / sizeof(element_types[0]))

TRITONSERVER_DataType onnx_datatype(ort_element_type type)
{
  for (size_t i = 0; i < ELEMENT_TYPE_COUNT; i++)
    if (element_types[i].element_type == type)
      return element_types[i].datatype;
  return TRITONSERVER_TYPE_INVALID;
}

const char *onnx_config_type(ort_element_type type)
{
  for (size_t i = 0; i < ELEMENT_TYPE_COUNT; i++)
    if (element_types[i].element_type == type)
      return element_types[i].config_type;
  return "TYPE_INVALID";
}

// The three lists are asked for with functions of the same form.
typedef struct list_functions {
  ort_status *(*count)(const ort_session *, size_t *);
  ort_status *(*name)(const ort_session *, size_t, ort_allocator *, char **);
  ort_status *(*type)(const ort_session *, size_t, ort_type_info **);
} list_functions;

static TRITONSERVER_Error *read_type(const ort_runtime *runtime, const ort_type_info *info,
                                     onnx_tensor *tensor)
{
  const ort_api *api = &runtime->api;
  const ort_tensor_info *tensor_info = NULL; // part of `info`
  size_t rank = 0;
  ORT_RETURN_IF_ERROR(runtime, api->GetOnnxTypeFromTypeInfo(info, &tensor->kind));
  if (tensor->kind != ORT_KIND_TENSOR)
    return NULL;
  ORT_RETURN_IF_ERROR(runtime, api->CastTypeInfoToTensorInfo(info, &tensor_info));
  ORT_RETURN_IF_ERROR(runtime, api->GetTensorElementType(tensor_info, &tensor->element_type));
  ORT_RETURN_IF_ERROR(runtime, api->GetDimensionsCount(tensor_info, &rank));
  BACKEND_RETURN_IF_ERROR(
      backend_shape_set(&tensor->shape, NULL, rank > BACKEND_MAX_RANK ? rank : 0, tensor->name));
  tensor->shape.rank = rank;
  return ort_error(runtime, api->GetDimensions(tensor_info, tensor->shape.dims, rank));
}

static TRITONSERVER_Error *read_tensor(const ort_runtime *runtime, const ort_session *session,
                                       const list_functions *functions, size_t index,
                                       onnx_tensor *tensor)
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
                                     const list_functions *functions, onnx_tensor_list *list)
{
  ORT_RETURN_IF_ERROR(runtime, functions->count(session, &list->count));
  list->tensors = calloc(list->count + 1, sizeof(*list->tensors));
  if (list->tensors == NULL) {
    list->count = 0;
    return backend_error_no_memory("the model's tensors");
  }
  for (size_t i = 0; i < list->count; i++)
    BACKEND_RETURN_IF_ERROR(read_tensor(runtime, session, functions, i, &list->tensors[i]));
  return NULL;
}

TRITONSERVER_Error *onnx_signature_read(const ort_runtime *runtime, const ort_session *session,
                                        onnx_signature *signature)
{
  const ort_api *api = &runtime->api;
  const list_functions inputs = {api->SessionGetInputCount, api->SessionGetInputName,
                                 api->SessionGetInputTypeInfo};
  const list_functions outputs = {api->SessionGetOutputCount, api->SessionGetOutputName,
                                  api->SessionGetOutputTypeInfo};
  const list_functions initializers = {api->SessionGetOverridableInitializerCount,
                                       api->SessionGetOverridableInitializerName,
                                       api->SessionGetOverridableInitializerTypeInfo};
  *signature = (onnx_signature){0};
  TRITONSERVER_Error *error = read_list(runtime, session, &inputs, &signature->inputs);
  if (error == NULL)
    error = read_list(runtime, session, &outputs, &signature->outputs);
  if (error == NULL)
    error = read_list(runtime, session, &initializers, &signature->initializers);
  if (error != NULL)
    onnx_signature_fini(signature);
  return error;
}

static void free_list(onnx_tensor_list *list)
{
  for (size_t i = 0; i < list->count; i++)
    free(list->tensors[i].name);
  free(list->tensors);
  *list = (onnx_tensor_list){0};
}

void onnx_signature_fini(onnx_signature *signature)
{
  free_list(&signature->inputs);
  free_list(&signature->outputs);
  free_list(&signature->initializers);
}

const onnx_tensor *onnx_tensor_find(const onnx_tensor_list *list, const char *name)
{
  for (size_t i = 0; i < list->count; i++)
    if (strcmp(list->tensors[i].name, name) == 0)
      return &list->tensors[i];
  return NULL;
}

TRITONSERVER_Error *onnx_tensor_require(const onnx_tensor *tensor)
{
  static const char *const kinds[] = {
      "ONNX_TYPE_UNKNOWN", "ONNX_TYPE_TENSOR",       "ONNX_TYPE_SEQUENCE", "ONNX_TYPE_MAP",
      "ONNX_TYPE_OPAQUE",  "ONNX_TYPE_SPARSETENSOR", "ONNX_TYPE_OPTIONAL"};
  if (tensor->kind == ORT_KIND_TENSOR)
    return NULL;
  const char *kind =
      (size_t)tensor->kind < sizeof(kinds) / sizeof(kinds[0]) ? kinds[tensor->kind] : kinds[0];
  return backend_error(TRITONSERVER_ERROR_UNSUPPORTED,
                       "Unsupported ONNX Type '%s' for I/O '%s', expected 'ONNX_TYPE_TENSOR'.",
                       kind, tensor->name);
}
