// SPDX-License-Identifier: Apache-2.0
// What other libraries of the process tell the server of GPUs, and ask it. Any thread.
#include "gpu/copy.h"
#include "gpu/health.h"
#include "nereid/nereid.h"

void NEREID_GpuCopied(int direction, uint64_t bytes)
{
  if (direction >= 0 && direction < GPU_COPY_DIRECTIONS)
    gpu_copy_add((gpu_direction)direction, bytes);
}

// gpu_health_of: what asks here is what the other functions of src/gpu/health.h ask.
int NEREID_GpuHealth(int device, char *text, size_t size)
{
  gpu_health_state state = gpu_health_of(device);
  if (state != GPU_HEALTH_GOOD)
    gpu_health_text(device, text, size);
  return (int)state;
}
