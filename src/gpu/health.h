// SPDX-License-Identifier: Apache-2.0
// Whether devices work, from the results of calls (a dead context stays dead) and NVML's Xid
// events. Any thread; the functions that only ask take no lock and make no call.
#ifndef NEREID_GPU_HEALTH_H
#define NEREID_GPU_HEALTH_H

#include "base/error.h"
#include "gpu/driver.h"

#include <stdbool.h>
#include <stdint.h>

#define GPU_HEALTH_BYTES 200 // of a text, including the NUL

typedef enum gpu_health_state {
  GPU_HEALTH_GOOD,
  GPU_HEALTH_CONTEXT_DEAD, // for this process
  GPU_HEALTH_LOST,         // it does not answer, or an Xid says so
  GPU_HEALTH_GONE, // lost and off the bus: it accesses no memory, and waiting for it is useless
} gpu_health_state;

// Records the result of a call on a device (see gpu_error_on): a sticky error marks the device.
void gpu_health_tell(int device, CUresult code);
void gpu_health_tell_lost(int device, const char *what, const char *name);
void gpu_health_tell_gone(int device, const char *what, const char *name);
// Copies the state and text from another copy of the layer.
void gpu_health_repeat(int device, gpu_health_state state, const char *text);
// In a process with nereid's server this also asks the server's copy of the layer, the only one
// that watches devices.
bool gpu_health_is_gone(int device);
error *gpu_error_on(int device, CUresult code, const char *what, ...)
    __attribute__((format(printf, 3, 4)));

gpu_health_state gpu_health_of(int device);
// Whether this copy has seen a dead context, even when the device is in a worse state now: none of
// its enqueued work is running any more.
bool gpu_health_is_dead(int device);
// For a device that is not good: "GPU 1: an illegal memory access was encountered
// (CUDA_ERROR_ILLEGAL_ADDRESS)", up to `size` bytes including the NUL.
void gpu_health_text(int device, char *text, size_t size);
// UNAVAILABLE, with the text, when this copy or the server's knows that the device is lost: a
// further call might never return. Otherwise NULL.
error *gpu_health_lost_error(int device);
// The name of the fault: "CUDA_ERROR_ILLEGAL_ADDRESS", "Xid 79", "NVML_ERROR_GPU_IS_LOST". False:
// the device is good.
bool gpu_health_code(int device, char *code, size_t size);

// Asks the driver about each device whose context is held, and NVML for events since the last call.
// The query of an own stream also finds what frameworks in the process have done. One thread calls
// it every half second.
void gpu_health_look(void);
uint64_t gpu_health_xids(int device);     // so far
uint32_t gpu_health_last_xid(int device); // 0: none

#endif
