// SPDX-License-Identifier: Apache-2.0
// Small helpers for definitions.
#include "framework.h"

#include "backend_error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void where_of(const framework_model *model, char *where, size_t size)
{
  snprintf(where, size, "model '%.256s': parameter", model->name);
}

TRITONSERVER_Error *framework_read_count(const framework_model *model, const char *key,
                                         int64_t most, int64_t *value)
{
  char where[512];
  where_of(model, where, sizeof(where));
  return backend_read_integer(where, key, backend_parameter(model->config, key), 0, most, value);
}

TRITONSERVER_Error *framework_read_switch(const framework_model *model, const char *key,
                                          bool *value)
{
  char where[512];
  where_of(model, where, sizeof(where));
  return backend_read_bool(where, key, backend_parameter(model->config, key), value);
}

void framework_tensors_clear(framework_tensors *tensors)
{
  for (size_t i = 0; i < tensors->count; i++) {
    free(tensors->list[i].name);
    free(tensors->list[i].refusal);
    free(tensors->list[i].rows_name);
  }
  free(tensors->list);
  *tensors = (framework_tensors){0};
}

const framework_tensor *framework_tensor_find(const framework_tensors *tensors, const char *name)
{
  for (size_t i = 0; i < tensors->count; i++)
    if (strcmp(tensors->list[i].name, name) == 0)
      return &tensors->list[i];
  return NULL;
}

const char *framework_config_type(TRITONSERVER_DataType datatype)
{
  static const char *const types[] = {
      [TRITONSERVER_TYPE_BOOL] = "TYPE_BOOL",     [TRITONSERVER_TYPE_UINT8] = "TYPE_UINT8",
      [TRITONSERVER_TYPE_UINT16] = "TYPE_UINT16", [TRITONSERVER_TYPE_UINT32] = "TYPE_UINT32",
      [TRITONSERVER_TYPE_UINT64] = "TYPE_UINT64", [TRITONSERVER_TYPE_INT8] = "TYPE_INT8",
      [TRITONSERVER_TYPE_INT16] = "TYPE_INT16",   [TRITONSERVER_TYPE_INT32] = "TYPE_INT32",
      [TRITONSERVER_TYPE_INT64] = "TYPE_INT64",   [TRITONSERVER_TYPE_FP16] = "TYPE_FP16",
      [TRITONSERVER_TYPE_FP32] = "TYPE_FP32",     [TRITONSERVER_TYPE_FP64] = "TYPE_FP64",
      [TRITONSERVER_TYPE_BYTES] = "TYPE_STRING",  [TRITONSERVER_TYPE_BF16] = "TYPE_BF16",
  };
  const char *type = (size_t)datatype < sizeof(types) / sizeof(types[0]) ? types[datatype] : NULL;
  return type != NULL ? type : "TYPE_INVALID";
}

bool framework_next_string(const char **at, size_t *left, const char **text, size_t *length)
{
  const unsigned char *head = (const unsigned char *)*at;
  if (*left < 4)
    return false;
  *length = head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16 | (size_t)head[3] << 24;
  if (*length > *left - 4)
    return false;
  *text = *at + 4;
  *at += 4 + *length;
  *left -= 4 + *length;
  return true;
}

TRITONSERVER_Error *framework_element_count(const char *name, const int64_t *dims, size_t rank,
                                            size_t *count)
{
  return backend_element_count(dims, rank, count)
             ? NULL
             : backend_error_invalid("input '%s' has an impossible shape", name);
}
