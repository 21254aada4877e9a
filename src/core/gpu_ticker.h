// SPDX-License-Identifier: Apache-2.0
// A thread that calls a function at once and then at each interval. What it calls may be NVML or
// CUDA, which can hang for ever on a GPU that is lost: the end does not wait for that.
#ifndef NEREID_CORE_GPU_TICKER_H
#define NEREID_CORE_GPU_TICKER_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct gpu_ticker gpu_ticker;

// `tick` gives false to be called no more. Errors: UNAVAILABLE.
error *gpu_ticker_new(const char *name, uint64_t interval_ns, bool (*tick)(void *context),
                      void *context, gpu_ticker **ticker);
// Has the thread end. False: `tick` has not come back within two seconds, and what it uses must be
// left to it; the log says so. NULL is allowed.
bool gpu_ticker_free(gpu_ticker *ticker);

#endif
