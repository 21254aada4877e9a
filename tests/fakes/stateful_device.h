// SPDX-License-Identifier: Apache-2.0
// Copies of the stateful backend to and from a GPU, by the driver that the server has opened.
#ifndef STATEFUL_DEVICE_H
#define STATEFUL_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

// Waits for its end. The device's context is the thread's. False: the driver says no.
bool copy_to_gpu(void *to, const void *from, size_t size);
bool copy_from_gpu(void *to, const void *from, size_t size);

#endif
