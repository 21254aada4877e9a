// SPDX-License-Identifier: Apache-2.0
// The metrics of GPUs: NVML's samples, and nereid's own pools, copies and faults. Where CUDA shows
// no device, there are only the two families of pinned memory, which Triton has everywhere.
#ifndef NEREID_CORE_GPU_METRICS_H
#define NEREID_CORE_GPU_METRICS_H

#include "base/error.h"
#include "core/gpus.h"

#include <stdint.h>

typedef struct gpu_metrics gpu_metrics;

// Registers the collector. `of_devices`: a thread samples devices each `interval_ms`; else only
// pinned memory is shown. `pinned_bytes`: the configured size of the pinned pool. `g` is borrowed
// until gpu_metrics_free; NULL: there are no GPUs.
error *gpu_metrics_new(gpus *g, bool of_devices, uint64_t interval_ms, uint64_t pinned_bytes,
                       gpu_metrics **metrics);
void gpu_metrics_free(gpu_metrics *metrics); // NULL is allowed

// Blocks until NVML has given the first samples or could not, for five seconds at most, since it
// may hang. Called before the server is ready, so that no scrape of a ready server lacks them.
void gpu_metrics_await(gpu_metrics *metrics);

#endif
