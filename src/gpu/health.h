// SPDX-License-Identifier: Apache-2.0
// Whether devices work: what calls have told (a dead context stays dead), and Xid events of NVML.
// Any thread; asking takes no lock and calls nothing.
#ifndef NEREID_GPU_HEALTH_H
#define NEREID_GPU_HEALTH_H

#include "base/error.h"
#include "gpu/driver.h"

#include <stdbool.h>
#include <stdint.h>

#define GPU_HEALTH_BYTES 200 // of a text, with its end

typedef enum gpu_health_state {
  GPU_HEALTH_GOOD,
  GPU_HEALTH_CONTEXT_DEAD, // for this process
  GPU_HEALTH_LOST,         // the device does not answer, or an Xid says so
  GPU_HEALTH_GONE,         // and off the bus: it touches no memory any more, waiting is in vain
} gpu_health_state;

// Every error of a device goes through here (gpu_error_on): a sticky one marks it.
void gpu_health_tell(int device, CUresult code);
void gpu_health_tell_lost(int device, const char *what, const char *name);
void gpu_health_tell_gone(int device, const char *what, const char *name);
// The text that another copy of the layer has of it.
void gpu_health_repeat(int device, gpu_health_state state, const char *text);
// Where the process has nereid's server, its copy of the layer is asked too: it alone looks.
bool gpu_health_is_gone(int device);
error *gpu_error_on(int device, CUresult code, const char *what, ...)
    __attribute__((format(printf, 3, 4)));

gpu_health_state gpu_health_of(int device);
// Whether this copy was told of a dead context, also when worse is known since: nothing that it
// enqueued is under way any more.
bool gpu_health_is_dead(int device);
// Of a device that is not good: "GPU 1: an illegal memory access was encountered
// (CUDA_ERROR_ILLEGAL_ADDRESS)"; `size` bytes with the end.
void gpu_health_text(int device, char *text, size_t size);
// UNAVAILABLE, with the text, where the device is lost, also by what the server knows: asking it
// for more might never end. NULL: it is not.
error *gpu_health_lost_error(int device);
// The name of what happened to it: "CUDA_ERROR_ILLEGAL_ADDRESS", "Xid 79",
// "NVML_ERROR_GPU_IS_LOST". False: it is good.
bool gpu_health_code(int device, char *code, size_t size);

// Asks the driver about each device whose context is held (a query of a stream of its own, which
// finds what frameworks in the process have done to it), and NVML for what happened since; called
// by one thread every half second.
void gpu_health_look(void);
uint64_t gpu_health_xids(int device);     // so far
uint32_t gpu_health_last_xid(int device); // 0: none

#endif
