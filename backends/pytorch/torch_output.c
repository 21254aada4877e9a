// SPDX-License-Identifier: Apache-2.0
// A tensor of PyTorch as an output of the batch. Instance threads.
#include "torch_model.h"

#include "backend_error.h"
#include "base/checked.h"
#include "torch_types.h"

#include <string.h>

void torch_strides(const int64_t *dims, size_t rank, int64_t *strides)
{
  int64_t stride = 1;
  for (size_t i = rank; i-- > 0;) {
    strides[i] = stride;
    if (dims[i] > 0 && !checked_multiply_int64(stride, dims[i], &stride))
      stride = 1; // an overflow: another dimension is 0, and no stride matters
  }
}

static bool is_dense(const backend_shape *shape, const int64_t *strides)
{
  int64_t dense[BACKEND_MAX_RANK];
  torch_strides(shape->dims, shape->rank, dense);
  for (size_t i = 0; i < shape->rank; i++)
    if (shape->dims[i] > 1 && strides[i] != dense[i])
      return false;
  return true;
}

// Copies element by element, the last dimension fastest.
static void gather(const backend_shape *shape, const int64_t *strides, size_t size,
                   const char *from, char *to, size_t count)
{
  int64_t at[BACKEND_MAX_RANK] = {0};
  for (; count > 0; count--, to += size) {
    memcpy(to, from, size);
    for (size_t i = shape->rank; i-- > 0;) {
      from += strides[i] * (int64_t)size;
      if (++at[i] < shape->dims[i])
        break;
      from -= strides[i] * (int64_t)size * at[i];
      at[i] = 0;
    }
  }
}

TRITONSERVER_Error *torch_output_set(framework_run *run, const char *name, int32_t type,
                                     const int64_t *dims, const int64_t *strides, size_t rank,
                                     const void *data, framework_output *output)
{
  size_t count = 0;
  if (rank == 0)
    return backend_error_invalid("output '%s' is a scalar which is not supported.", name);
  output->datatype = torch_datatype_of(type);
  BACKEND_RETURN_IF_ERROR(backend_shape_set(&output->shape, dims, rank, name));
  if (!backend_element_count(dims, rank, &count))
    return backend_error_internal("output '%s' has an impossible shape", name);
  output->data = data;
  const size_t size = TRITONSERVER_DataTypeByteSize(output->datatype);
  if (count == 0 || size == 0 || is_dense(&output->shape, strides))
    return NULL;
  char *copy = arena_allocate_array(&run->memory, count, size);
  if (copy == NULL)
    return backend_error_no_memory("an output");
  gather(&output->shape, strides, size, data, copy, count);
  output->data = copy;
  return NULL;
}
