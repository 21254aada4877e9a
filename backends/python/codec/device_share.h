// SPDX-License-Identifier: Apache-2.0
// Device memory that the host and one worker have in common: on each device one region, which the
// host makes when a tensor first needs it, and grows by pieces that go to the worker over the
// socket. What is taken here is the host's to write until the worker is told of it. Any thread;
// taking, granting, copying and device_share_free may call the driver, so not one of the server's
// loops.
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

// `socket`: the host's end of the worker's, borrowed. NULL: no memory.
device_share *device_share_new(int socket);
void device_share_free(device_share *self); // also what is lent; NULL is allowed
// The same on a thread of its own: for who may be on a loop.
void device_share_retire(device_share *self);
void device_share_await_retired(void); // until all of them have gone

// Room for `bytes` of a tensor. False: it is to go through CPU memory; a warning has said why, once
// for each worker and device.
bool device_share_take(device_share *self, int device, size_t bytes, device_range *range);
void device_share_give_back(device_share *self, const device_range *range);

// The range is the worker's until device_share_release for the block of the channel that named it.
// False: no memory, and it is the caller's.
bool device_share_lend(device_share *self, uint64_t block, const device_range *range);
void device_share_release(device_share *self, uint64_t block);

// Gives the worker of instance `who` room for what it makes, and tells it over the socket, or why
// there is none.
void device_share_grant(device_share *self, const char *who, int device, uint64_t bytes);
// The worker cannot map what is on the device: nothing more is taken there.
void device_share_refuse(device_share *self, int device, const char *why);

// What a worker has named; NULL when it is not in the region.
void *device_share_at(const device_share *self, int device, uint64_t offset, uint64_t size);

// Copies, and waits. "<what> '<name>': failed to perform CUDA copy: …".
TRITONSERVER_Error *device_share_copy(void *to, gpu_place to_place, const void *from,
                                      gpu_place from_place, size_t bytes, const char *what,
                                      const char *name);

#endif
