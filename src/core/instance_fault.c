// SPDX-License-Identifier: Apache-2.0
// Whether an instance's GPU works; asked by its thread before each batch, and by health checks.
#include "core/gpu_watch.h"
#include "core/instance.h"
#include "gpu/health.h"

// A dead context of this process is not that of another process, which only a lost GPU stops.
bool instance_has_gpu_fault(const instance *i, char *text, size_t size)
{
  if (!i->uses_gpu && (i->looked_after_by == NULL || gpu_health_of(i->device_id) < GPU_HEALTH_LOST))
    return false;
  return gpu_fault(i->device_id, text, size);
}

error *instance_gpu_refusal(const instance *i)
{
  char text[GPU_FAULT_BYTES];
  return instance_has_gpu_fault(i, text, sizeof(text))
             ? gpu_refusal(i->shared->target->name, i->device_id)
             : NULL;
}
