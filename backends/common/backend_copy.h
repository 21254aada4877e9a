// SPDX-License-Identifier: Apache-2.0
// Copies GPU memory that reaches an instance on the CPU (a client's region, another model's
// tensor). The calling thread waits for the copy. Any thread.
#ifndef NEREID_BACKEND_COPY_H
#define NEREID_BACKEND_COPY_H

#include "gpu/copy.h"
#include "triton/core/tritonbackend.h"

// Copies `bytes` bytes of the tensor `name` between any two places.
TRITONSERVER_Error *backend_copy_now(void *to, gpu_place to_place, const void *from,
                                     gpu_place from_place, size_t bytes, const char *name);

// Makes sure that this library may use the device's memory. The first call holds the device's
// context until the library's last instance ends, when backend_entry.c calls backend_devices_leave.
error *backend_device_reach(int ordinal);
void backend_devices_leave(void);

#endif
