// SPDX-License-Identifier: Apache-2.0
// The primary context of each device, which everything in the process shares (frameworks too): held
// while something of ours is on the device, and made by the first hold. A device that nobody holds
// costs nothing. Any thread.
#ifndef NEREID_GPU_CONTEXT_H
#define NEREID_GPU_CONTEXT_H

#include "base/list.h"
#include "gpu/device.h"
#include "gpu/driver.h"

// Holds the device's context, for gpu_context_release; making it may take a second. INVALID_ARG for
// a device that is not there; UNAVAILABLE for one that is lost and that nobody holds, or has gone;
// what the driver says.
error *gpu_context_hold(int device);
void gpu_context_release(int device);

// Makes the context of a held device the calling thread's: once at the head of a thread of ours,
// so that what the layer does there finds it. Cheap where it is already.
error *gpu_context_enter(int device);
// For a thread that is not ours: what was current before comes back by gpu_context_leave. All that
// the layer does itself, it does so: no call of it changes the thread's context but enter. Until
// then, and on a thread that has entered for good, graphs that others capture do not mind the
// calls.
error *gpu_context_visit(int device, CUcontext *before);
void gpu_context_leave(CUcontext before);

CUcontext gpu_context_of(int device); // NULL: not held

// A stream of the layer's own, for as long as one call lasts, with some pinned memory for what is
// pageable. Kept while the device is held, as many as were ever taken at once. Both are called by
// a visitor. One that is not `idle` stays as it is to the end of the process.
typedef struct gpu_lane {
  list_node node;
  CUstream stream;
  void *staging; // NULL until whoever has the lane makes it, by cuMemHostAlloc
} gpu_lane;
CUresult gpu_context_take_lane(int device, gpu_lane **lane);
void gpu_context_give_lane(int device, gpu_lane *lane, bool idle);

// Asks the driver whether the context works. CUDA_SUCCESS: yes, or nobody holds it, or somebody is
// about to make or to release it.
CUresult gpu_context_ask(int device);

// Lets the device and each of the others that is held, as it is itself, reach each other's memory;
// INTERNAL when one could not.
error *gpu_context_enable_peers(int device, const int *peers, size_t count);

// Whether somebody (ours or a framework) has made the device's context.
bool gpu_context_is_active(int device);

#endif
