// SPDX-License-Identifier: Apache-2.0
// The primary context of each device, which all code in the process shares, frameworks included.
// The first hold makes it, and it stays while anything of ours is on the device. A device without
// holds costs nothing. Any thread.
#ifndef NEREID_GPU_CONTEXT_H
#define NEREID_GPU_CONTEXT_H

#include "base/list.h"
#include "gpu/device.h"
#include "gpu/driver.h"

// Holds the device's context until gpu_context_release; making it may take a second. Errors:
// INVALID_ARG for a device that does not exist; UNAVAILABLE for a device that has gone, or is lost
// and not held; else the driver's.
error *gpu_context_hold(int device);
void gpu_context_release(int device);

// Makes the context of a held device current on the calling thread. A thread of ours calls it once,
// at its start, for the layer's calls there. Cheap when it is current already.
error *gpu_context_enter(int device);
// The same for a thread that is not ours; gpu_context_leave restores the previous context. The
// layer's own calls use these two, so only gpu_context_enter changes a thread's context for good.
// During a visit, and on an entered thread, the calls do not disturb graphs that other threads
// capture.
error *gpu_context_visit(int device, CUcontext *before);
void gpu_context_leave(CUcontext before);

CUcontext gpu_context_of(int device); // NULL: not held

// A stream of the layer's own for one call, with pinned memory for copies of pageable memory. Lanes
// are kept while the device is held, as many as were ever in use at once. Call both within a visit.
// A lane that is not `idle` is never used again, and stays until the process ends.
typedef struct gpu_lane {
  list_node node;
  CUstream stream;
  void *staging; // NULL until its user makes it with cuMemHostAlloc
} gpu_lane;
CUresult gpu_context_take_lane(int device, gpu_lane **lane);
void gpu_context_give_lane(int device, gpu_lane *lane, bool idle);

// Asks the driver whether the context works. CUDA_SUCCESS: it works, is not held, or another thread
// is making or releasing it.
CUresult gpu_context_ask(int device);

// Lets the device and each of the other held `peers` reach each other's memory. INTERNAL when one
// could not.
error *gpu_context_enable_peers(int device, const int *peers, size_t count);

// Whether any code in the process has made the device's context.
bool gpu_context_is_active(int device);

#endif
