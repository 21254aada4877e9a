// SPDX-License-Identifier: Apache-2.0
// Checks each half second whether the GPUs that models run on still work, from the first such
// instance on, and reports failures. For a server, and for a model's own process.
// docs/internals/gpu.md
#ifndef NEREID_CORE_GPU_WATCH_H
#define NEREID_CORE_GPU_WATCH_H

#include "base/error.h"
#include "gpu/device.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct gpu_watch gpu_watch;

typedef struct gpu_watch_calls {
  void *context;
  // The number of this process' instances on the device; NULL: none, see gpu_watch_begin_apart.
  size_t (*users)(void *context, int device);
  // Once for each device at fault; `text` says how.
  void (*failed)(void *context, const gpu_device *device, const char *text);
  // With each look after the first fault, as models may have come; or NULL.
  void (*refuse)(void *context);
} gpu_watch_calls; // on the watch's thread

error *gpu_watch_new(const gpu_devices *devices, gpu_watch_calls calls, gpu_watch **watch);
// Nothing is called from then on, and nothing begins. NULL is allowed, as in free.
void gpu_watch_stop(gpu_watch *watch);
void gpu_watch_free(gpu_watch *watch);

// A model comes to a device: starts the thread unless it runs. Any thread.
error *gpu_watch_begin(gpu_watch *watch);
// The same for an instance that runs in another process, which `users` does not count. The device
// is watched until gpu_watch_end_apart, which is due whatever this returns.
error *gpu_watch_begin_apart(gpu_watch *watch, int device);
void gpu_watch_end_apart(gpu_watch *watch, int device);

// Whether the device is at fault; `text` (`size` bytes with the NUL) then says how. Any thread.
bool gpu_fault(int device, char *text, size_t size);

#define GPU_FAULT_BYTES 256

// UNAVAILABLE, for a request to that model, where the device is at fault; else NULL.
error *gpu_refusal(const char *model, int device);

#endif
