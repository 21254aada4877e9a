// SPDX-License-Identifier: Apache-2.0
// Prints tensors in GPU memory. See record.h. On threads that run models, and jobs.
#include "base/blocks.h"
#include "frontend/trace/record.h"
#include "gpu/context.h"
#include "gpu/copy.h"

#define TEXT_MIN_BYTES_SHARE 4 // eight bytes are two characters at least: "0,"

// Copies in the device's context, which the server has for as long as the tensor exists.
static error *copy_out(void *to, const void *base, size_t size, int device)
{
  const gpu_place from = {.kind = GPU_MEMORY_DEVICE, .device = device};
  RETURN_IF_ERROR(gpu_context_hold(device));
  error *e = gpu_copy_now(to, (gpu_place){.kind = GPU_MEMORY_HOST}, base, from, size, "trace");
  gpu_context_release(device);
  return e;
}

bool gpu_tensor_text_append(buffer *out, TRITONSERVER_DataType datatype, const void *base,
                            size_t size, int64_t device, size_t limit, bool *whole)
{
  *whole = size / TEXT_MIN_BYTES_SHARE <= limit;
  if (!*whole || size == 0)
    return true;
  void *copy = block_allocate_zeroed(size);
  error *e = copy == NULL ? error_no_memory() : copy_out(copy, base, size, (int)device);
  const bool is_read = e == NULL;
  error_free(e);
  if (is_read)
    *whole = tensor_text_append(out, datatype, copy, size, limit);
  block_free(copy, size);
  return is_read;
}
