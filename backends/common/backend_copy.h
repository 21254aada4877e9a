// SPDX-License-Identifier: Apache-2.0
// Memory of GPUs as instances on CPUs meet it (a client's region, the tensor of another model): it
// is copied, and who has asked waits. Any thread.
#ifndef NEREID_BACKEND_COPY_H
#define NEREID_BACKEND_COPY_H

#include "gpu/copy.h"
#include "triton/core/tritonbackend.h"

// Copies `bytes` bytes of the tensor `name` between any two places.
TRITONSERVER_Error *backend_copy_now(void *to, gpu_place to_place, const void *from,
                                     gpu_place from_place, size_t bytes, const char *name);

// Makes sure that this library may use memory of the device: its context is held from now on, until
// no instance of the library is left, which backend_entry.c tells backend_devices_leave.
error *backend_device_reach(int ordinal);
void backend_devices_leave(void);

#endif
