// SPDX-License-Identifier: Apache-2.0
// This worker's use of devices: a stream for copies on each, and what a dead context means. libcuda
// is opened by the first tensor on a device, and nothing else of CUDA's is needed. With the GIL
// held unless said otherwise; what waits for the device lets go of it.
#ifndef NEREID_DEVICE_H
#define NEREID_DEVICE_H

#include "native.h"

#include "gpu/copy.h"
#include "gpu/device.h"

// Whether there can be a device of that number.
bool device_is_possible(int device);
// Makes the context, the stream and the event, unless they are there.
error *device_open(int device);

// The stream of this worker's on the device, which producers are given. NULL with an exception set.
gpu_stream *device_stream(int device);

// Copies on that stream behind all that the legacy default stream has; device_await waits for all
// of them. NULL or an error.
error *device_copy(int device, void *to, gpu_place to_place, const void *from, gpu_place from_place,
                   size_t size, const char *what);
error *device_await(int device);
// The stream goes on behind all that the legacy default stream has now.
error *device_follow(int device);

// The device is through with everything; one that this worker has not used is passed over.
error *device_synchronize(int device);
// What `consumer`, a stream as DLPack numbers it, does from now on comes after what is known of the
// device's own stream and the legacy default stream.
error *device_order(int device, int64_t consumer);

// Sets the exception; the error is taken.
void device_raise(error *e_owned);

// Whether a context of this process is dead: text of `size` bytes with the end. `looks`: asks the
// devices whose context somebody in this process has made, if there is a driver here at all.
bool device_fault(bool looks, char *text, size_t size);

extern PyMethodDef device_functions[];

#endif
