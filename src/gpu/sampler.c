// SPDX-License-Identifier: Apache-2.0
// Reads NVML's values for metrics. One thread samples.
#include "gpu/sampler.h"

#include "gpu/health.h"
#include "gpu/nvml_library.h"

#include <assert.h>
#include <stdlib.h>

typedef struct sampled {
  int ordinal;
  bool known; // to NVML
  nvmlDevice_t handle;
  unsigned long long first_millijoules;
} sampled;

struct gpu_sampler {
  const gpu_nvml *nvml;
  size_t count;
  sampled items[MAX_GPUS];
};

// Whether the device has the value. Records a lost device.
static bool gave(const sampled *s, nvmlReturn_t code)
{
  if (code == NVML_ERROR_GPU_IS_LOST)
    gpu_health_tell_gone(s->ordinal, "the GPU is lost", "NVML_ERROR_GPU_IS_LOST");
  return code == NVML_SUCCESS;
}

static bool read_energy(const gpu_nvml *nvml, const sampled *s, unsigned long long *millijoules)
{
  return s->known && nvml->nvmlDeviceGetTotalEnergyConsumption != NULL &&
         gave(s, nvml->nvmlDeviceGetTotalEnergyConsumption(s->handle, millijoules));
}

error *gpu_sampler_new(const gpu_devices *devices, gpu_sampler **sampler)
{
  gpu_sampler *n = calloc(1, sizeof(*n));
  error *e = n == NULL ? error_no_memory() : gpu_nvml_open(&n->nvml);
  if (e != NULL) {
    free(n);
    return e;
  }
  n->count = devices->count;
  for (size_t i = 0; i < n->count; i++) {
    sampled *s = &n->items[i];
    s->ordinal = devices->items[i].ordinal;
    s->known = gpu_nvml_find(n->nvml, &devices->items[i], &s->handle);
    read_energy(n->nvml, s, &s->first_millijoules);
  }
  *sampler = n;
  return NULL;
}

void gpu_sampler_free(gpu_sampler *sampler)
{
  if (sampler == NULL)
    return;
  gpu_nvml_close(sampler->nvml);
  free(sampler);
}

static void read_memory(const gpu_nvml *nvml, const sampled *s, gpu_sample *sample)
{
  nvmlMemory_v2_t memory = {.version = NVML_MEMORY_V2};
  if (nvml->nvmlDeviceGetMemoryInfo_v2 == NULL ||
      !gave(s, nvml->nvmlDeviceGetMemoryInfo_v2(s->handle, &memory)))
    return;
  sample->memory_total_bytes = (double)memory.total;
  sample->memory_used_bytes = (double)memory.used;
}

void gpu_sampler_take(gpu_sampler *sampler, size_t index, gpu_sample *sample)
{
  assert(index < sampler->count);
  const gpu_nvml *nvml = sampler->nvml;
  const sampled *s = &sampler->items[index];
  nvmlUtilization_t rates;
  unsigned milliwatts;
  unsigned long long millijoules;
  *sample = (gpu_sample){-1, -1, -1, -1, -1, -1};
  if (!s->known)
    return;
  read_memory(nvml, s, sample);
  if (gave(s, nvml->nvmlDeviceGetUtilizationRates(s->handle, &rates)))
    sample->utilization = rates.gpu * 0.01;
  if (gave(s, nvml->nvmlDeviceGetPowerUsage(s->handle, &milliwatts)))
    sample->power_watts = milliwatts * 0.001;
  if (gave(s, nvml->nvmlDeviceGetPowerManagementLimit(s->handle, &milliwatts)))
    sample->power_limit_watts = milliwatts * 0.001;
  if (read_energy(nvml, s, &millijoules) && millijoules >= s->first_millijoules)
    sample->energy_joules = (double)(millijoules - s->first_millijoules) * 0.001;
}
