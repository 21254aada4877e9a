// SPDX-License-Identifier: Apache-2.0
// A thread that calls a function at once and then at each interval. The function may call NVML or
// CUDA, which can hang for ever on a GPU that is lost; gpu_ticker_free does not wait for that.
#ifndef NEREID_CORE_GPU_TICKER_H
#define NEREID_CORE_GPU_TICKER_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct gpu_ticker gpu_ticker;

// `tick` returns false to be called no more. Errors: UNAVAILABLE.
error *gpu_ticker_new(const char *name, uint64_t interval_ns, bool (*tick)(void *context),
                      void *context, gpu_ticker **ticker);
// Ends the thread. False: `tick` has not returned within two seconds, which the log says, and what
// it uses must not be freed. NULL is allowed.
bool gpu_ticker_free(gpu_ticker *ticker);

#endif
