// SPDX-License-Identifier: Apache-2.0
// What /metrics shows of GPUs: NVML's samples, and nereid's own pools, copies and faults. Nothing
// at all where CUDA shows no device, but the two families of pinned memory, which Triton has
// everywhere.
#ifndef NEREID_CORE_GPU_METRICS_H
#define NEREID_CORE_GPU_METRICS_H

#include "base/error.h"
#include "core/gpus.h"

#include <stdint.h>

typedef struct gpu_metrics gpu_metrics;

// Registers the collector. `of_devices`: more than the pinned memory is shown, sampled by a thread
// each `interval_ms`. `pinned_bytes` is the size that the pool of pinned memory is to have. `g` is
// borrowed until gpu_metrics_free; NULL: there are no GPUs.
error *gpu_metrics_new(gpus *g, bool of_devices, uint64_t interval_ms, uint64_t pinned_bytes,
                       gpu_metrics **metrics);
void gpu_metrics_free(gpu_metrics *metrics); // NULL is allowed

// Blocks until NVML has given the first samples, or could not; five seconds at most, since it may
// hang. Called before the server is ready, so that no scrape of a ready one lacks them.
void gpu_metrics_await(gpu_metrics *metrics);

#endif
