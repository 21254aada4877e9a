// SPDX-License-Identifier: Apache-2.0
// Whether an instance's GPU works: what its thread asks before each batch, and who asks for health.
#include "core/gpu_watch.h"
#include "core/instance.h"
#include "gpu/health.h"

// A context that is dead in this process is not the other one's.
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
