// SPDX-License-Identifier: Apache-2.0
// Device memory shared by the host and one worker. Each device has one region, which the host makes
// when a tensor first needs it and grows by pieces that it sends over the socket. A taken range is
// the host's to write until the worker is told about it. Any thread. Taking, granting, copying and
// device_share_free may call the driver, so the server's loops must not call them.
#ifndef NEREID_PYTHON_DEVICE_SHARE_H
#define NEREID_PYTHON_DEVICE_SHARE_H

#include "gpu/copy.h"

#include "triton/core/tritonserver.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct device_share device_share;

// Part of a region.
typedef struct device_range {
  void *memory; // NULL: none
  int device;
  uint64_t offset;
} device_range;

// `socket`: the host's end, borrowed. NULL: no memory.
device_share *device_share_new(int socket);
void device_share_free(device_share *self); // frees lent ranges too; NULL is allowed
// The same on a thread of its own, for callers on a loop.
void device_share_retire(device_share *self);
void device_share_await_retired(void); // waits for all of these threads

// Takes room for `bytes` of a tensor. False: use CPU memory instead; a warning has said why, once
// per worker and device.
bool device_share_take(device_share *self, int device, size_t bytes, device_range *range);
void device_share_give_back(device_share *self, const device_range *range);

// Gives the range to the worker until device_share_release for the channel's block that named it.
// False: no memory, and the caller keeps the range.
bool device_share_lend(device_share *self, uint64_t block, const device_range *range);
void device_share_release(device_share *self, uint64_t block);

// Gives the worker of instance `who` room for its own tensors, and tells it over the socket; or
// tells it why there is none.
void device_share_grant(device_share *self, const char *who, int device, uint64_t bytes);
// The worker cannot map the device's region: nothing more is taken there.
void device_share_refuse(device_share *self, int device, const char *why);

// The address of what a worker has named; NULL when it is not in the region.
void *device_share_at(const device_share *self, int device, uint64_t offset, uint64_t size);

// Copies, and waits. The error is "<what> '<name>': failed to perform CUDA copy: …".
TRITONSERVER_Error *device_share_copy(void *to, gpu_place to_place, const void *from,
                                      gpu_place from_place, size_t bytes, const char *what,
                                      const char *name);

#endif
