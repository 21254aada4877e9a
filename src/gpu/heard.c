// SPDX-License-Identifier: Apache-2.0
// Whether a device is lost, also by what the server's copy of the layer knows: it alone looks, and
// hears of Xids. Any thread, before the driver is called and while it is waited for.
#include "gpu/health.h"

// In a process that has nereid's server what its copy knows; else NULL.
extern int NEREID_GpuHealth(int device, char *text, size_t size)
    __attribute__((weak, visibility("default")));

// The server's own copy hears what it knows. A dead context is not heard of: each copy is told of
// it by its own calls.
static gpu_health_state hear(int device)
{
  char text[GPU_HEALTH_BYTES] = "";
  int state = NEREID_GpuHealth != NULL ? NEREID_GpuHealth(device, text, sizeof(text)) : 0;
  if (state == GPU_HEALTH_LOST || state == GPU_HEALTH_GONE)
    gpu_health_repeat(device, (gpu_health_state)state, text);
  return gpu_health_of(device);
}

bool gpu_health_is_gone(int device)
{
  return hear(device) == GPU_HEALTH_GONE;
}

error *gpu_health_lost_error(int device)
{
  char text[GPU_HEALTH_BYTES];
  if (hear(device) < GPU_HEALTH_LOST)
    return NULL;
  gpu_health_text(device, text, sizeof(text));
  return error_new(ERROR_UNAVAILABLE, "%s", text);
}
