// One row each.
#include "frontend/common/json/datatype.h"

static const struct {
  const char *name;
  size_t size;
} rows[] = {
    [TRITONSERVER_TYPE_INVALID] = {"<invalid>", 0}, [TRITONSERVER_TYPE_BOOL] = {"BOOL", 1},
    [TRITONSERVER_TYPE_UINT8] = {"UINT8", 1},       [TRITONSERVER_TYPE_UINT16] = {"UINT16", 2},
    [TRITONSERVER_TYPE_UINT32] = {"UINT32", 4},     [TRITONSERVER_TYPE_UINT64] = {"UINT64", 8},
    [TRITONSERVER_TYPE_INT8] = {"INT8", 1},         [TRITONSERVER_TYPE_INT16] = {"INT16", 2},
    [TRITONSERVER_TYPE_INT32] = {"INT32", 4},       [TRITONSERVER_TYPE_INT64] = {"INT64", 8},
    [TRITONSERVER_TYPE_FP16] = {"FP16", 2},         [TRITONSERVER_TYPE_FP32] = {"FP32", 4},
    [TRITONSERVER_TYPE_FP64] = {"FP64", 8},         [TRITONSERVER_TYPE_BYTES] = {"BYTES", 0},
    [TRITONSERVER_TYPE_BF16] = {"BF16", 2},
};

#define ROW_COUNT (sizeof(rows) / sizeof(rows[0]))

TRITONSERVER_DataType protocol_datatype(slice name)
{
  for (size_t i = TRITONSERVER_TYPE_INVALID + 1; i < ROW_COUNT; i++)
    if (slice_equal_text(name, rows[i].name))
      return (TRITONSERVER_DataType)i;
  return TRITONSERVER_TYPE_INVALID;
}

const char *protocol_datatype_name(TRITONSERVER_DataType datatype)
{
  return (size_t)datatype < ROW_COUNT ? rows[datatype].name : "<invalid>";
}

size_t protocol_datatype_size(TRITONSERVER_DataType datatype)
{
  return (size_t)datatype < ROW_COUNT ? rows[datatype].size : 0;
}
