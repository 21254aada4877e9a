// SPDX-License-Identifier: Apache-2.0
// This worker's use of devices: a stream for copies on each, and detection of a dead context. The
// first tensor on a device opens libcuda; no other CUDA library is needed. With the GIL held unless
// said otherwise; waits for the device release it.
#ifndef NEREID_NATIVE_DEVICE_H
#define NEREID_NATIVE_DEVICE_H

#include "native.h"

#include "gpu/copy.h"
#include "gpu/device.h"

// Whether a device may have this number.
bool device_is_possible(int device);
// Makes the context, the stream and the event, unless they are there.
error *device_open(int device);

// This worker's stream on the device, which producers get. NULL with an exception set.
gpu_stream *device_stream(int device);

// Copies on that stream, after all work of the legacy default stream; device_await waits for all
// copies. NULL or an error.
error *device_copy(int device, void *to, gpu_place to_place, const void *from, gpu_place from_place,
                   size_t size, const char *what);
error *device_await(int device);
// Makes the stream wait for the current work of the legacy default stream.
error *device_follow(int device);

// Waits until the device has finished everything. Does nothing for a device that this worker has
// not used.
error *device_synchronize(int device);
// Makes `consumer`, a stream as DLPack numbers it, wait for the current work of this worker's
// stream and the legacy default stream.
error *device_order(int device, int64_t consumer);

// Sets the exception and takes the error.
void device_raise(error *e_owned);

// Whether a context of this process is dead, with a text of up to `size` bytes including the NUL.
// `looks`: also asks the devices for which any code in this process has made a context, if there is
// a driver.
bool device_fault(bool looks, char *text, size_t size);

extern PyMethodDef device_functions[];

#endif
