// SPDX-License-Identifier: Apache-2.0
// Device memory shared with the host: regions that the host makes, mapped here when a tensor needs
// them. With the GIL held unless said otherwise; waits release it.
#ifndef NEREID_DEVICE_REGION_H
#define NEREID_DEVICE_REGION_H

#include "native.h"

// Handles a message of the host over the socket, with its descriptor (-1: none). Without the GIL.
void device_hear(const protocol_device *said, int descriptor);

// Saves the environment's device variables, to notice when a model changes them.
void device_keep_visible(void);

// The address of `size` bytes at `offset` of the region on `device`. NULL: they cannot be mapped,
// the host has been told, and device_why says why.
void *device_map(int device, uint64_t offset, size_t size);
const char *device_why(int device);

// Whether `address` is in the region; gives its offset.
bool device_is_shared(int device, const void *address, uint64_t *offset);

// A part of the region for `size` bytes of this worker's data, until device_give_back. NULL: there
// is no room, and the tensor goes through CPU memory.
void *device_take(int device, size_t size);
void device_give_back(int device, void *address);

// check_visible: called after the model's initialize.
extern PyMethodDef device_region_functions[];

#endif
