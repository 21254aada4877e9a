// SPDX-License-Identifier: Apache-2.0
// NVML's values of the devices, for metrics. One thread samples.
#ifndef NEREID_GPU_SAMPLER_H
#define NEREID_GPU_SAMPLER_H

#include "gpu/device.h"

#include <stdint.h>

typedef struct gpu_sampler gpu_sampler;

// Negative: the device does not have this value (a MIG slice's utilization, a platform without
// power).
typedef struct gpu_sample {
  double utilization; // 0 to 1
  double memory_total_bytes, memory_used_bytes;
  double power_watts, power_limit_watts;
  double energy_joules; // since the sampler was made
} gpu_sample;

// NOT_FOUND when there is no libnvidia-ml.so.1, UNAVAILABLE when it does not start.
error *gpu_sampler_new(const gpu_devices *devices, gpu_sampler **sampler);
void gpu_sampler_free(gpu_sampler *sampler);
void gpu_sampler_take(gpu_sampler *sampler, size_t index, gpu_sample *sample); // of devices->items

#endif
