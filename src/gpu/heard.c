// SPDX-License-Identifier: Apache-2.0
// Whether a device is lost, including what the server's copy of the layer knows: only that copy
// watches devices and gets Xids. Any thread, before a call of the driver and while waiting for it.
#include "gpu/health.h"

// The server's function in a process with nereid's server; else NULL.
extern int NEREID_GpuHealth(int device, char *text, size_t size)
    __attribute__((weak, visibility("default")));

// The server's copy hears its own state. Dead contexts are not asked for: each copy learns them
// from its own calls.
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
  return error_new_text(ERROR_UNAVAILABLE, text);
}
