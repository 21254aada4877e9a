// SPDX-License-Identifier: Apache-2.0
// Names of the ABI's enumerators, and sizes of data types. Static tables; any thread.
#include "request/signature.h"

#include <string.h>

#define COUNT_OF(table) (sizeof(table) / sizeof((table)[0]))

static const char *name_of(const char *const *names, size_t count, size_t value)
{
  return value < count ? names[value] : "<invalid>";
}

const char *TRITONSERVER_DataTypeString(TRITONSERVER_DataType datatype)
{
  return datatype_name(datatype);
}

TRITONSERVER_DataType TRITONSERVER_StringToDataType(const char *dtype)
{
  const datatype *row;
  for (int i = TRITONSERVER_TYPE_INVALID + 1; (row = datatype_by_value(i)) != NULL; i++)
    if (row->wire_name[0] == dtype[0] && strcmp(row->wire_name, dtype) == 0)
      return (TRITONSERVER_DataType)i;
  return TRITONSERVER_TYPE_INVALID;
}

uint32_t TRITONSERVER_DataTypeByteSize(TRITONSERVER_DataType datatype)
{
  return (uint32_t)datatype_byte_size(datatype);
}

const char *TRITONSERVER_MemoryTypeString(TRITONSERVER_MemoryType memtype)
{
  static const char *const names[] = {
      [TRITONSERVER_MEMORY_CPU] = "CPU",
      [TRITONSERVER_MEMORY_CPU_PINNED] = "CPU_PINNED",
      [TRITONSERVER_MEMORY_GPU] = "GPU",
  };
  return name_of(names, COUNT_OF(names), memtype);
}

const char *TRITONSERVER_ParameterTypeString(TRITONSERVER_ParameterType paramtype)
{
  static const char *const names[] = {
      [TRITONSERVER_PARAMETER_STRING] = "STRING", [TRITONSERVER_PARAMETER_INT] = "INT",
      [TRITONSERVER_PARAMETER_BOOL] = "BOOL",     [TRITONSERVER_PARAMETER_DOUBLE] = "DOUBLE",
      [TRITONSERVER_PARAMETER_BYTES] = "BYTES",
  };
  return name_of(names, COUNT_OF(names), paramtype);
}

const char *TRITONSERVER_InstanceGroupKindString(TRITONSERVER_InstanceGroupKind kind)
{
  static const char *const names[] = {
      [TRITONSERVER_INSTANCEGROUPKIND_AUTO] = "AUTO",
      [TRITONSERVER_INSTANCEGROUPKIND_CPU] = "CPU",
      [TRITONSERVER_INSTANCEGROUPKIND_GPU] = "GPU",
      [TRITONSERVER_INSTANCEGROUPKIND_MODEL] = "MODEL",
  };
  return name_of(names, COUNT_OF(names), kind);
}

const char *TRITONSERVER_InferenceTraceLevelString(TRITONSERVER_InferenceTraceLevel level)
{
  static const struct {
    TRITONSERVER_InferenceTraceLevel level;
    const char *name;
  } rows[] = {
      {TRITONSERVER_TRACE_LEVEL_DISABLED, "DISABLED"},
      {TRITONSERVER_TRACE_LEVEL_MIN, "MIN"},
      {TRITONSERVER_TRACE_LEVEL_MAX, "MAX"},
      {TRITONSERVER_TRACE_LEVEL_TIMESTAMPS, "TIMESTAMPS"},
      {TRITONSERVER_TRACE_LEVEL_TENSORS, "TENSORS"},
  };
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    if (rows[i].level == level)
      return rows[i].name;
  }
  return "<unknown>";
}

const char *TRITONSERVER_InferenceTraceActivityString(TRITONSERVER_InferenceTraceActivity activity)
{
  static const char *const names[] = {
      [TRITONSERVER_TRACE_REQUEST_START] = "REQUEST_START",
      [TRITONSERVER_TRACE_QUEUE_START] = "QUEUE_START",
      [TRITONSERVER_TRACE_COMPUTE_START] = "COMPUTE_START",
      [TRITONSERVER_TRACE_COMPUTE_INPUT_END] = "COMPUTE_INPUT_END",
      [TRITONSERVER_TRACE_COMPUTE_OUTPUT_START] = "COMPUTE_OUTPUT_START",
      [TRITONSERVER_TRACE_COMPUTE_END] = "COMPUTE_END",
      [TRITONSERVER_TRACE_REQUEST_END] = "REQUEST_END",
      [TRITONSERVER_TRACE_TENSOR_QUEUE_INPUT] = "TENSOR_QUEUE_INPUT",
      [TRITONSERVER_TRACE_TENSOR_BACKEND_INPUT] = "TENSOR_BACKEND_INPUT",
      [TRITONSERVER_TRACE_TENSOR_BACKEND_OUTPUT] = "TENSOR_BACKEND_OUTPUT",
      [TRITONSERVER_TRACE_CUSTOM_ACTIVITY] = "CUSTOM_ACTIVITY",
  };
  return (size_t)activity < COUNT_OF(names) ? names[activity] : "<unknown>";
}
