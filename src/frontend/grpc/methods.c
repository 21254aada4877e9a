// The methods of the gRPC port.
#include "frontend/grpc/methods.h"

#include "frontend/grpc/infer.h"

#define SERVICE "/inference.GRPCInferenceService/"

static const method table[] = {
    {SERVICE "ModelInfer", CATEGORY_INFERENCE, handle_model_infer, false},
    {SERVICE "ModelStreamInfer", CATEGORY_INFERENCE, handle_model_stream_infer, true},
};

#define ROW_COUNT (sizeof(table) / sizeof(table[0]))

const method *methods_find(slice path)
{
  for (size_t i = 0; i < ROW_COUNT; i++)
    if (slice_equal_text(path, table[i].path))
      return &table[i];
  return NULL;
}

const method *methods_all(size_t *count)
{
  *count = ROW_COUNT;
  return table;
}
