// SPDX-License-Identifier: Apache-2.0
// The server's GPUs: which may be used, their pools of memory, and the users of each. A device
// costs nothing (no context, no memory) until something uses it. Part of the server; any thread. A
// request takes no lock here but a pool's.
#ifndef NEREID_CORE_GPUS_H
#define NEREID_CORE_GPUS_H

#include "config/config.h"
#include "core/server_options.h"
#include "gpu/device.h"
#include "gpu/pool.h"

typedef struct gpus gpus;

// Finds the devices. It is no error when there is no GPU or no driver, or when one does not work.
error *gpus_new(const server_options *options, gpus **result);
void gpus_free(gpus *g); // nothing uses one any more; NULL is allowed

const gpu_devices *gpus_devices(const gpus *g); // all that CUDA shows
// The ordinals of the devices that may be used; none where `g` is NULL.
config_gpus gpus_supported(const gpus *g);

// An instance is about to be on the device. The first user makes the context and the missing pools,
// which may take a second; a pool that cannot be made is a warning. gpus_leave undoes this; the
// last user frees the device's pool and context. Callers take memory on the device only in between.
// If memory is still out when the last user leaves, the pool stays until the next one leaves.
error *gpus_use(gpus *g, int device);
void gpus_leave(gpus *g, int device);
size_t gpus_users(gpus *g, int device);

// An instance is on the device: UNAVAILABLE where all processes together use more of its memory
// than --model-load-gpu-limit allows.
error *gpus_check_limit(gpus *g, int device, const char *instance);
uint64_t gpus_pool_size(const gpus *g, int device);     // --cuda-memory-pool-byte-size
uint64_t gpus_address_space(const gpus *g, int device); // --cuda-virtual-address-size
// Writes "in use by 2", or why it is not.
void gpus_describe_use(gpus *g, int device, char *text, size_t size);

// Memory for TRITONBACKEND_MemoryManagerAllocate: from pools only, in Triton's words when there is
// none. INTERNAL for a device that does not exist. `g` NULL: there are no GPUs.
error *gpus_take(gpus *g, gpu_place place, size_t bytes, void **memory);
void gpus_give_back(gpus *g, gpu_place place, void *memory);
bool gpus_owns(gpus *g, gpu_place place, const void *memory); // whether a pool gave it
// The same for our own buffers: from the device's pool, else pinned memory, else the heap; `*place`
// says which. Falling back is counted, and logged once.
error *gpus_take_any(gpus *g, gpu_place *place, size_t bytes, void **memory);

// Sum of all pools of a kind (`device` -1: of all devices).
void gpus_count(gpus *g, gpu_memory_kind kind, int device, gpu_pool_counts *counts);

#endif
