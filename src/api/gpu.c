// SPDX-License-Identifier: Apache-2.0
// Reports and questions of the process's other libraries about GPUs. Any thread.
#include "gpu/copy.h"
#include "gpu/health.h"
#include "nereid/nereid.h"

void NEREID_GpuCopied(int direction, uint64_t bytes)
{
  if (direction >= 0 && direction < GPU_COPY_DIRECTIONS)
    gpu_copy_add((gpu_direction)direction, bytes);
}

// gpu_health_of, not the other functions of src/gpu/health.h: those would call this one.
int NEREID_GpuHealth(int device, char *text, size_t size)
{
  gpu_health_state state = gpu_health_of(device);
  if (state != GPU_HEALTH_GOOD)
    gpu_health_text(device, text, size);
  return (int)state;
}
