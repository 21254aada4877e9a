// SPDX-License-Identifier: Apache-2.0
// The memory of devices that this worker shares with the host: regions that the host makes, mapped
// here when a tensor needs them. With the GIL held unless said otherwise; what waits lets go of it.
#ifndef NEREID_DEVICE_REGION_H
#define NEREID_DEVICE_REGION_H

#include "native.h"

// Takes what the host says over the socket, and the descriptor (-1: none) with it. Without the GIL.
void device_hear(const protocol_device *said, int descriptor);

// Keeps what the environment says of devices: what a model changes there is told from that.
void device_keep_visible(void);

// Where `size` bytes at `offset` of the region on `device` are. NULL: they cannot be mapped, the
// host has been told, and device_why says why.
void *device_map(int device, uint64_t offset, size_t size);
const char *device_why(int device);

// Whether `address` is in the region, and at which offset.
bool device_is_shared(int device, const void *address, uint64_t *offset);

// A part of the region for `size` bytes that this worker makes, until device_give_back. NULL: there
// is none, and the tensor goes through CPU memory.
void *device_take(int device, size_t size);
void device_give_back(int device, void *address);

// check_visible: for after the model's initialize.
extern PyMethodDef device_region_functions[];

#endif
