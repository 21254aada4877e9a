// SPDX-License-Identifier: Apache-2.0
// The server's GPUs: which may be used, the pools of memory on and for them, and who uses which. A
// device costs nothing (no context, no memory) until something uses it. Part of the server; any
// thread, no lock on a request's way but a pool's.
#ifndef NEREID_CORE_GPUS_H
#define NEREID_CORE_GPUS_H

#include "config/config.h"
#include "core/server_options.h"
#include "gpu/device.h"
#include "gpu/pool.h"

typedef struct gpus gpus;

// Finds the devices. No GPU, no driver and one that does not work are no errors.
error *gpus_new(const server_options *options, gpus **result);
void gpus_free(gpus *g); // nothing uses one any more; NULL is allowed

const gpu_devices *gpus_devices(const gpus *g); // all that CUDA shows
// Ordinals of those that may be used; none where `g` is NULL.
config_gpus gpus_supported(const gpus *g);

// An instance is about to be on the device: the first user makes the context, and the pools where
// there are none yet. May take a second. A pool that cannot be made is a warning. gpus_leave takes
// it back; with the last user the device's pool and context go. Only while something of the
// caller's is on the device may it take memory there; what still has memory when the last user
// leaves keeps the pool until the next one leaves.
error *gpus_use(gpus *g, int device);
void gpus_leave(gpus *g, int device);
size_t gpus_users(gpus *g, int device);

// An instance is on the device: UNAVAILABLE where more of its memory is in use, by whomever, than
// --model-load-gpu-limit allows.
error *gpus_check_limit(gpus *g, int device, const char *instance);
uint64_t gpus_pool_size(const gpus *g, int device);     // --cuda-memory-pool-byte-size
uint64_t gpus_address_space(const gpus *g, int device); // --cuda-virtual-address-size
// "in use by 2", or why it is not.
void gpus_describe_use(gpus *g, int device, char *text, size_t size);

// Memory of the kind that TRITONBACKEND_MemoryManagerAllocate wants: from pools only, in Triton's
// texts when there is none. INTERNAL for a device that is not there. `g` NULL: there are no
// GPUs.
error *gpus_take(gpus *g, gpu_place place, size_t bytes, void **memory);
void gpus_give_back(gpus *g, gpu_place place, void *memory);
bool gpus_owns(gpus *g, gpu_place place, const void *memory); // whether it was taken of a pool
// The same for our own buffers: the device's pool, else pinned memory, else the heap; `*place` says
// what it became. Falling back is counted, and a warning once.
error *gpus_take_any(gpus *g, gpu_place *place, size_t bytes, void **memory);

// Sum of all pools of a kind (`device` -1: of all devices).
void gpus_count(gpus *g, gpu_memory_kind kind, int device, gpu_pool_counts *counts);

#endif
